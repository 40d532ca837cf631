#include "runtime/comm/messenger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "runtime/comm/mpi_check.h"

namespace sluice {
namespace {

int tag_limit(MPI_Comm comm) {
  int* limit = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&limit), &found), "MPI_Comm_get_attr");
  return found != 0 ? *limit : 32767;  // the standard's minimum
}

}  // namespace

void Collective::count(const Message& message, LinkKind link) {
  (message.sending ? sent_bytes_ : received_bytes_)[static_cast<std::size_t>(link)] += message.bytes;
}

Messenger::Messenger(MPI_Comm comm, std::vector<int> node_of_rank, std::int64_t chunk_bytes)
    : comm_(comm), max_tag_(tag_limit(comm)), node_of_rank_(std::move(node_of_rank)), chunk_bytes_(chunk_bytes) {
  if (chunk_bytes < 1 || chunk_bytes > std::numeric_limits<int>::max())
    throw runtime_fault(text("chunk_bytes is ", chunk_bytes, ", expected 1 to ", std::numeric_limits<int>::max()));
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
}

// Only after a fault: nobody waits for these any more, and no destructor may throw.
Messenger::~Messenger() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (!messages_[i].sending) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
}

void Messenger::start(const std::shared_ptr<Collective>& collective) {
  const int tag = collective->tag();
  if (tag < 0 || tag > max_tag_)
    throw runtime_fault(text("tag ", tag, " is outside 0..", max_tag_,
                             ", MPI's limit: too many transfers x micro-batches; use fewer micro-batches"));
  if (collective->bytes() < 0)
    throw runtime_fault(text(collective->name(), " with tag ", tag, " of ", collective->bytes(), " bytes"));
  if (collective->ready().done())
    collective->begin(*this);
  else
    waiting_.push_back(collective);
}

void Messenger::post(Message message) {
  const int count = static_cast<int>(message.bytes);
  const int tag = message.collective->tag();
  MPI_Request request = MPI_REQUEST_NULL;
  if (message.sending)
    check_mpi(MPI_Isend(message.data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Isend");
  else
    check_mpi(MPI_Irecv(message.data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Irecv");
  requests_.push_back(request);
  messages_.push_back(std::move(message));
}

bool Messenger::advance() {
  const auto begun = std::erase_if(waiting_, [this](const std::shared_ptr<Collective>& collective) {
    if (!collective->ready().done()) return false;
    collective->begin(*this);
    return true;
  });
  const std::vector<Completion> completions = take_completions();
  for (const Completion& completion : completions) settle(completion);
  return begun > 0 || !completions.empty();
}

// One MPI_Testsome for all messages: one turn of MPI's progress engine a round.
std::vector<Messenger::Completion> Messenger::take_completions() {
  if (requests_.empty()) return {};
  std::vector<int> indices(requests_.size());
  std::vector<MPI_Status> statuses(requests_.size());
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices.data(), statuses.data());
  int error_class = MPI_SUCCESS;
  check_mpi(MPI_Error_class(code, &error_class), "MPI_Error_class");
  const bool code_in_status = error_class == MPI_ERR_IN_STATUS;
  if (!code_in_status) check_mpi(code, "MPI_Testsome");

  std::vector<Completion> completions;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    Message& message = messages_[static_cast<std::size_t>(indices[i])];
    completions.push_back({std::move(message), statuses[i], code_in_status ? statuses[i].MPI_ERROR : MPI_SUCCESS});
  }
  if (completions.empty()) return completions;
  std::erase_if(messages_, [](const Message& message) { return message.collective == nullptr; });
  std::erase(requests_, MPI_REQUEST_NULL);
  return completions;
}

void Messenger::settle(const Completion& completion) {
  const Message& message = completion.message;
  int received = 0;
  check_mpi(MPI_Get_count(&completion.status, MPI_BYTE, &received), "MPI_Get_count");
  const bool wrong_size = !message.sending && received != message.bytes;
  if (completion.code != MPI_SUCCESS || wrong_size)
    throw runtime_fault(text(name(message), message.sending ? "" : text(" and received ", received),
                             completion.code == MPI_SUCCESS ? "" : ": " + mpi_words(completion.code)));
  const bool intra =
      node_of_rank_[static_cast<std::size_t>(rank_)] == node_of_rank_[static_cast<std::size_t>(message.peer)];
  const LinkKind link = intra ? LinkKind::intra_node : LinkKind::inter_node;
  (message.sending ? sent_bytes_ : received_bytes_)[static_cast<std::size_t>(link)] += message.bytes;
  message.collective->count(message, link);
  message.collective->complete(*this, message);
}

std::string Messenger::name(const Message& message) const {
  return text("rank ", rank_, message.sending ? " sending to rank " : " receiving from rank ", message.peer,
              " with tag ", message.collective->tag(), ": ", message.bytes, " bytes",
              message.sending ? "" : " expected");
}

std::string Messenger::missing(const Collective& collective) const {
  std::string list = text("rank ", rank_, ", ", collective.name(), " with tag ", collective.tag(), " of ",
                          collective.bytes(), " bytes:");
  if (!collective.ready().done()) return list + " its buffer is not ready, the work before it has not ended";
  for (const Message& message : messages_)
    if (message.collective.get() == &collective)
      list += text(" [", message.sending ? "send to rank " : "receive from rank ", message.peer, ", ", message.bytes,
                   " bytes at ", message.offset, "]");
  return list;
}

}  // namespace sluice
