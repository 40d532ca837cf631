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

/// This rank's part of the tree.
void take_place(Multicast& multicast, std::span<const Edge> edges, Rank rank, int size) {
  for (const Edge& edge : edges) {
    if (std::min(edge.from, edge.to) < 0 || std::max(edge.from, edge.to) >= size || edge.from == edge.to)
      throw runtime_fault(text("multicast with tag ", multicast.tag, ": edge ", edge.from, " -> ", edge.to,
                               " does not fit a communicator of ", size, " ranks"));
    if (edge.from == rank) multicast.children.push_back(edge.to);
    if (edge.to != rank) continue;
    if (multicast.parent != kNone)
      throw runtime_fault(text("multicast with tag ", multicast.tag, ": rank ", rank, " would receive twice, from ",
                               multicast.parent, " and from ", edge.from));
    multicast.parent = edge.from;
  }
  if (!edges.empty() && multicast.parent == kNone && multicast.children.empty())
    throw runtime_fault(text("multicast with tag ", multicast.tag, ": rank ", rank, " is not a member"));
}

}  // namespace

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

std::shared_ptr<Multicast> Messenger::start(std::span<const Edge> edges, void* data, std::int64_t bytes, int tag,
                                            Event ready) {
  if (tag < 0 || tag > max_tag_)
    throw runtime_fault(text("tag ", tag, " is outside 0..", max_tag_,
                             ", MPI's limit: too many transfers x micro-batches; use fewer micro-batches"));
  if (bytes < 0) throw runtime_fault(text("multicast with tag ", tag, " of ", bytes, " bytes"));
  auto multicast = std::make_shared<Multicast>();
  multicast->data = static_cast<std::byte*>(data);
  multicast->bytes = bytes;
  multicast->tag = tag;
  multicast->ready = std::move(ready);
  take_place(*multicast, edges, rank_, static_cast<int>(node_of_rank_.size()));
  const std::int64_t pieces = std::max<std::int64_t>(1, (bytes + chunk_bytes_ - 1) / chunk_bytes_);
  multicast->unfinished = pieces * (std::ssize(multicast->children) + (multicast->parent == kNone ? 0 : 1));
  if (multicast->ready.done())
    post(multicast);
  else
    waiting_.push_back(multicast);
  return multicast;
}

bool Messenger::advance() {
  const auto posted = std::erase_if(waiting_, [this](const std::shared_ptr<Multicast>& multicast) {
    if (!multicast->ready.done()) return false;
    post(multicast);
    return true;
  });
  const std::vector<Completion> completions = take_completions();
  for (const Completion& completion : completions) settle(completion);
  return posted > 0 || !completions.empty();
}

void Messenger::post(const std::shared_ptr<Multicast>& multicast) {
  multicast->posted = true;
  if (multicast->parent != kNone) return receive_piece(multicast, 0);
  std::int64_t offset = 0;
  do {  // a payload of 0 bytes is one message too: it still tells that the root is there
    const std::int64_t bytes = piece_bytes(*multicast, offset);
    send_piece(multicast, offset, bytes);
    offset += bytes;
  } while (offset < multicast->bytes);
}

std::int64_t Messenger::piece_bytes(const Multicast& multicast, std::int64_t offset) const {
  return std::min(chunk_bytes_, multicast.bytes - offset);
}

// One piece at a time: receives that are posted together may complete in any
// order, and pieces passed on in another order would be taken for each other.
void Messenger::receive_piece(const std::shared_ptr<Multicast>& multicast, std::int64_t offset) {
  post_message({multicast, false, multicast->parent, offset, piece_bytes(*multicast, offset)});
}

void Messenger::send_piece(const std::shared_ptr<Multicast>& multicast, std::int64_t offset, std::int64_t bytes) {
  for (const Rank child : multicast->children) post_message({multicast, true, child, offset, bytes});
}

void Messenger::post_message(Message message) {
  std::byte* data = message.multicast->data + message.offset;
  const int count = static_cast<int>(message.bytes);
  const int tag = message.multicast->tag;
  MPI_Request request = MPI_REQUEST_NULL;
  if (message.sending)
    check_mpi(MPI_Isend(data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Isend");
  else
    check_mpi(MPI_Irecv(data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Irecv");
  requests_.push_back(request);
  messages_.push_back(std::move(message));
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
  std::erase_if(messages_, [](const Message& message) { return message.multicast == nullptr; });
  std::erase(requests_, MPI_REQUEST_NULL);
  return completions;
}

void Messenger::settle(const Completion& completion) {
  const Message& message = completion.message;
  Multicast& multicast = *message.multicast;
  int received = 0;
  check_mpi(MPI_Get_count(&completion.status, MPI_BYTE, &received), "MPI_Get_count");
  const bool wrong_size = !message.sending && received != message.bytes;
  if (completion.code != MPI_SUCCESS || wrong_size)
    throw runtime_fault(text(name(message), message.sending ? "" : text(" and received ", received),
                             completion.code == MPI_SUCCESS ? "" : ": " + mpi_words(completion.code)));
  const bool intra =
      node_of_rank_[static_cast<std::size_t>(rank_)] == node_of_rank_[static_cast<std::size_t>(message.peer)];
  const auto link = static_cast<std::size_t>(intra ? LinkKind::intra_node : LinkKind::inter_node);
  (message.sending ? sent_bytes_ : received_bytes_)[link] += message.bytes;
  --multicast.unfinished;
  if (message.sending) return;
  send_piece(message.multicast, message.offset, message.bytes);
  const std::int64_t next = message.offset + message.bytes;
  if (next < multicast.bytes) receive_piece(message.multicast, next);
}

std::string Messenger::name(const Message& message) const {
  return text("rank ", rank_, message.sending ? " sending to rank " : " receiving from rank ", message.peer,
              " with tag ", message.multicast->tag, ": ", message.bytes, " bytes", message.sending ? "" : " expected");
}

std::string Messenger::missing(const Multicast& multicast) const {
  std::string list = text("rank ", rank_, ", multicast with tag ", multicast.tag, " of ", multicast.bytes, " bytes:");
  if (!multicast.posted) return list + " its buffer is not ready, the work before it has not ended";
  for (const Message& message : messages_)
    if (message.multicast.get() == &multicast)
      list += text(" [", message.sending ? "send to rank " : "receive from rank ", message.peer, ", ", message.bytes,
                   " bytes at ", message.offset, "]");
  return list;
}

}  // namespace sluice
