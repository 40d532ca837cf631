#include "runtime/comm/messenger.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "core/checksum.h"
#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "runtime/comm/faults.h"
#include "runtime/comm/mpi_check.h"

namespace sluice {
namespace {

constexpr std::int64_t kChecksumBytes = sizeof(std::uint64_t);

int tag_limit(MPI_Comm comm) {
  int* limit = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&limit), &found), "MPI_Comm_get_attr");
  return found != 0 ? *limit : 32767;  // the standard's minimum
}

}  // namespace

void Collective::count(bool sent, LinkKind link, std::int64_t bytes) {
  (sent ? sent_bytes_ : received_bytes_)[static_cast<std::size_t>(link)] += bytes;
}

Messenger::Messenger(MPI_Comm comm, NodeMap nodes, std::int64_t chunk_bytes)
    : comm_(comm), max_tag_(tag_limit(comm)), nodes_(std::move(nodes)), chunk_bytes_(chunk_bytes) {
  if (chunk_bytes < 1 || chunk_bytes > std::numeric_limits<int>::max())
    throw runtime_fault(text("chunk_bytes is ", chunk_bytes, ", expected 1 to ", std::numeric_limits<int>::max()));
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
}

// Only after a fault there are any: nobody waits for these any more, and no destructor may throw. MPI may still read
// and write their memory, so what they own stays.
Messenger::~Messenger() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (messages_[i].peer == kNone) continue;  // MPI allows neither for collectives
    if (!messages_[i].sending) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  static auto* const kept = new std::vector<Message>;
  std::move(messages_.begin(), messages_.end(), std::back_inserter(*kept));
}

void Messenger::start(const std::shared_ptr<Collective>& collective) {
  const int tag = collective->tag();
  if (tag < 0 || tag > max_tag_)
    throw runtime_fault(text("tag ", tag, " is outside 0..", max_tag_,
                             ", MPI's limit: too many transfers x micro-batches; use fewer micro-batches"));
  waiting_.push_back(collective);
  begin_what_is_ready();
}

bool Messenger::begin_what_is_ready() {
  std::vector<MPI_Comm> blocked;
  const auto begun = std::erase_if(waiting_, [&](const std::shared_ptr<Collective>& collective) {
    const MPI_Comm queue = collective->queue();
    const bool its_turn = std::find(blocked.begin(), blocked.end(), queue) == blocked.end();
    if (its_turn && collective->ready().done()) {
      collective->begin(*this);
      return true;
    }
    if (queue != MPI_COMM_NULL) blocked.push_back(queue);
    return false;
  });
  return begun > 0;
}

LinkKind Messenger::link_to(Rank peer) const {
  return nodes_.node_of_rank[at(rank_)] == nodes_.node_of_rank[at(peer)] ? LinkKind::intra_node : LinkKind::inter_node;
}

void Messenger::post(Message message) {
  attach_checksum(message);
  const int tag = message.collective->tag();
  const auto post_bytes = [&](void* data, std::int64_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int count = static_cast<int>(bytes);
    if (message.sending && message.is_checksum)  // nobody waits for it
      check_mpi(MPI_Isend(data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Isend");
    else if (message.sending)
      check_mpi(MPI_Issend(data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Issend");
    else
      check_mpi(MPI_Irecv(data, count, MPI_BYTE, message.peer, tag, comm_, &request), "MPI_Irecv");
    adopt(message, request);
  };
  post_bytes(message.data, message.bytes);
  message.is_checksum = true;
  if (message.checksum) post_bytes(&message.checksum->value, kChecksumBytes);
}

void Messenger::broadcast(Message message, int root, MPI_Comm comm) {
  attach_checksum(message);
  const auto call = [&](void* data, std::int64_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, comm, &request), "MPI_Ibcast");
    adopt(message, request);
  };
  call(message.data, message.bytes);
  message.is_checksum = true;
  if (message.checksum) call(&message.checksum->value, kChecksumBytes);
}

void Messenger::attach_checksum(Message& message) const {
  if (!verifies_) return;
  message.checksum = std::make_shared<Message::Checksum>();
  if (message.sending) message.checksum->value = checksum(message.data, message.bytes);
}

void Messenger::adopt(Message message, MPI_Request request) {
  requests_.push_back(request);
  messages_.push_back(std::move(message));
}

void Messenger::count(Collective& collective, bool sent, Rank peer, std::int64_t bytes) {
  if (peer == rank_) return;
  (sent ? sent_bytes_ : received_bytes_)[static_cast<std::size_t>(link_to(peer))] += bytes;
  collective.count(sent, link_to(peer), bytes);
}

bool Messenger::advance() {
  const bool begun = begin_what_is_ready();
  const std::vector<Completion> completions = take_completions();
  for (const Completion& completion : completions) settle(completion);
  return begun || !completions.empty();
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
  check(completion);
  if (message.checksum) {
    if (--message.checksum->incomplete > 0) return;
    compare(message);
  }
  if (message.peer != kNone) count(*message.collective, message.sending, message.peer, message.bytes);
  message.collective->complete(*this, message);
}

void Messenger::check(const Completion& completion) const {
  const Message& message = completion.message;
  int received = 0;
  check_mpi(MPI_Get_count(&completion.status, MPI_BYTE, &received), "MPI_Get_count");
  const bool receives = !message.sending && message.peer != kNone;
  const std::int64_t expected = message.is_checksum ? kChecksumBytes : message.bytes;
  if (completion.code == MPI_SUCCESS && !(receives && received != expected)) return;
  throw TransferFault(message.collective->tag(),
                      text(name(message), receives ? text(" and received ", received) : "",
                           completion.code == MPI_SUCCESS ? "" : ": " + mpi_words(completion.code)));
}

void Messenger::compare(const Message& message) const {
  if (message.sending || checksum(message.data, message.bytes) == message.checksum->value) return;
  throw TransferFault(message.collective->tag(), text(name(message), " at offset ", message.offset,
                                                      " are not those that were sent (--verify-transfers): memory, "
                                                      "network card or link of one of the two is faulty"));
}

std::string Messenger::name(const Message& message) const {
  const char* what = message.is_checksum ? "the checksum of " : "";
  const Collective& collective = *message.collective;
  if (message.peer == kNone)
    return text("rank ", rank_, " in ", collective.name(), " with tag ", collective.tag(), ": ", what, message.bytes,
                " bytes from the root");
  return text("rank ", rank_, message.sending ? " sending to " : " receiving from ", describe(nodes_, message.peer),
              " in ", collective.name(), " with tag ", collective.tag(), ": ", what, message.bytes, " bytes",
              message.sending ? "" : " expected");
}

std::string Messenger::missing(const Collective& collective) const {
  std::string list = text("rank ", rank_, ", ", collective.name(), " with tag ", collective.tag(), " of ",
                          collective.bytes(), " bytes:");
  if (!collective.ready().done()) return list + " its buffer is not ready, the work before it has not ended";
  for (const Message& message : messages_)
    if (message.collective.get() == &collective)
      list += text(" [",
                   message.peer == kNone ? "call of the whole group"
                   : message.sending     ? "send to " + describe(nodes_, message.peer)
                                         : "receive from " + describe(nodes_, message.peer),
                   ", ", message.is_checksum ? "checksum of " : "", message.bytes, " bytes at ", message.offset, "]");
  return list;
}

}  // namespace sluice
