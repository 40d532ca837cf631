#include "runtime/comm/mpi_broadcast.h"

#include <algorithm>

#include "runtime/comm/mpi_check.h"

namespace sluice {

MpiBroadcast::MpiBroadcast(std::shared_ptr<const CollectivePart> part, MPI_Comm comm, void* data, int tag, Event ready)
    : Collective(part->bytes, tag, std::move(ready)),
      part_(std::move(part)),
      comm_(comm),
      data_(static_cast<std::byte*>(data)) {}

void MpiBroadcast::begin(Messenger& messenger) {
  begun_ = true;
  if (part_->steps.empty()) return;
  const std::vector<Rank>& members = part_->group.members;
  const auto root = static_cast<int>(std::find(members.begin(), members.end(), part_->group.root) - members.begin());
  std::int64_t offset = 0;
  do {
    const std::int64_t chunk = std::min(messenger.chunk_bytes(), bytes() - offset);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data_ + offset, static_cast<int>(chunk), MPI_BYTE, root, comm_, &request), "MPI_Ibcast");
    messenger.adopt({.collective = shared_from_this(), .offset = offset, .bytes = chunk}, request);
    ++chunks_left_;
    offset += chunk;
  } while (offset < bytes());
}

void MpiBroadcast::complete(Messenger& messenger, const Message&) {
  if (--chunks_left_ > 0) return;
  for (const Step& step : part_->steps) messenger.count(*this, step.sends, step.peer, step.bytes);
}

}  // namespace sluice
