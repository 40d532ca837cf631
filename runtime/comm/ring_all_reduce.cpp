#include "runtime/comm/ring_all_reduce.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
/// Bounds the memory for what is still to be added; small enough to stay in a cache.
constexpr std::int64_t kMostPieceBytes = 1 << 20;

}  // namespace

RingAllReduce::RingAllReduce(std::span<const Edge> ring, Rank rank, int size, float* data, std::int64_t count, int tag,
                             Event ready)
    : Collective(count * kFloat, tag, std::move(ready)),
      data_(reinterpret_cast<std::byte*>(data)),
      members_(std::max(1, static_cast<int>(ring.size()))) {
  take_place(ring, rank, size);
}

void RingAllReduce::take_place(std::span<const Edge> ring, Rank rank, int size) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const Edge& edge = ring[i];
    if (edge.from < 0 || edge.from >= size || edge.to != ring[(i + 1) % ring.size()].from || edge.from == edge.to)
      throw runtime_fault(text("all-reduce with tag ", tag(), ": edge ", edge.from, " -> ", edge.to,
                               " is not part of a ring of ", size, " ranks at most"));
    if (edge.to == rank) previous_ = edge.from;
    if (edge.from != rank) continue;
    next_ = edge.to;
    place_ = static_cast<int>(i);
  }
  if (!ring.empty() && next_ == kNone)
    throw runtime_fault(text("all-reduce with tag ", tag(), ": rank ", rank, " is not a member"));
}

void RingAllReduce::begin(Messenger& messenger) {
  begun_ = true;
  if (done()) return;
  const std::int64_t largest = std::min(messenger.chunk_bytes(), kMostPieceBytes);
  piece_bytes_ = std::max(kFloat, largest / kFloat * kFloat);
  const std::int64_t first_chunk = ring_chunk(bytes(), members_, 0).bytes;  // none is larger
  received_.resize(static_cast<std::size_t>(std::min(piece_bytes_, first_chunk) / kFloat));
  post_round(messenger);
}

RingChunk RingAllReduce::chunk(int round) const { return ring_chunk(bytes(), members_, place_ - round + rounds() + 2); }

void RingAllReduce::post_round(Messenger& messenger) {
  receive_piece(messenger, chunk(round_ + 1).offset);
  send_chunk(messenger);
}

void RingAllReduce::send_chunk(Messenger& messenger) {
  const auto [begin, bytes] = chunk(round_);
  std::int64_t offset = begin;
  do {  // a chunk of 0 bytes is one message too
    const std::int64_t piece = std::min(piece_bytes_, begin + bytes - offset);
    messenger.post({shared_from_this(), true, next_, data_ + offset, offset, piece});
    ++unfinished_;
    offset += piece;
  } while (offset < begin + bytes);
}

// One piece at a time: there is one place for what is to be added.
void RingAllReduce::receive_piece(Messenger& messenger, std::int64_t offset) {
  const auto [begin, bytes] = chunk(round_ + 1);
  std::byte* target = sums() ? reinterpret_cast<std::byte*>(received_.data()) : data_ + offset;
  messenger.post(
      {shared_from_this(), false, previous_, target, offset, std::min(piece_bytes_, begin + bytes - offset)});
  ++unfinished_;
}

void RingAllReduce::complete(Messenger& messenger, const Message& message) {
  --unfinished_;
  if (!message.sending) {
    if (sums()) add(message);
    const auto [begin, bytes] = chunk(round_ + 1);
    const std::int64_t next = message.offset + message.bytes;
    if (next < begin + bytes) receive_piece(messenger, next);
  }
  if (unfinished_ > 0) return;
  if (++round_ < rounds()) post_round(messenger);
}

void RingAllReduce::add(const Message& message) {
  float* sums = reinterpret_cast<float*>(data_ + message.offset);
  for (std::int64_t i = 0; i < message.bytes / kFloat; ++i) sums[i] += received_[static_cast<std::size_t>(i)];
}

}  // namespace sluice
