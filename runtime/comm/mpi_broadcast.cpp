#include "runtime/comm/mpi_broadcast.h"

#include <algorithm>

namespace sluice {

MpiBroadcast::MpiBroadcast(std::shared_ptr<const CollectivePart> part, MPI_Comm comm, bool sends, void* data, int tag,
                           Event ready)
    : Collective(part->bytes, tag, std::move(ready)),
      part_(std::move(part)),
      comm_(comm),
      sends_(sends),
      data_(static_cast<std::byte*>(data)) {}

void MpiBroadcast::begin(Messenger& messenger) {
  begun_ = true;
  if (part_->steps.empty()) return;
  const int root = place_of(part_->group, part_->group.root);
  std::int64_t offset = 0;
  do {
    const std::int64_t chunk = std::min(messenger.chunk_bytes(), bytes() - offset);
    messenger.broadcast(
        {.collective = shared_from_this(), .sending = sends_, .data = data_ + offset, .offset = offset, .bytes = chunk},
        root, comm_);
    ++chunks_left_;
    offset += chunk;
  } while (offset < bytes());
}

void MpiBroadcast::complete(Messenger& messenger, const Message&) {
  if (--chunks_left_ > 0) return;
  for (const Step& step : part_->steps) messenger.count(*this, step.sends, step.peer, step.bytes);
}

}  // namespace sluice
