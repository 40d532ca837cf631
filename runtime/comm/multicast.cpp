#include "runtime/comm/multicast.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

Multicast::Multicast(std::span<const Edge> edges, Rank rank, int size, void* data, std::int64_t bytes, int tag,
                     Event ready)
    : Collective(bytes, tag, std::move(ready)), data_(static_cast<std::byte*>(data)) {
  take_place(edges, rank, size);
}

/// This rank's part of the tree.
void Multicast::take_place(std::span<const Edge> edges, Rank rank, int size) {
  for (const Edge& edge : edges) {
    if (std::min(edge.from, edge.to) < 0 || std::max(edge.from, edge.to) >= size || edge.from == edge.to)
      throw runtime_fault(text("multicast with tag ", tag(), ": edge ", edge.from, " -> ", edge.to,
                               " does not fit a communicator of ", size, " ranks"));
    if (edge.from == rank) children_.push_back(edge.to);
    if (edge.to != rank) continue;
    if (parent_ != kNone)
      throw runtime_fault(text("multicast with tag ", tag(), ": rank ", rank, " would receive twice, from ", parent_,
                               " and from ", edge.from));
    parent_ = edge.from;
  }
  if (!edges.empty() && parent_ == kNone && children_.empty())
    throw runtime_fault(text("multicast with tag ", tag(), ": rank ", rank, " is not a member"));
}

void Multicast::begin(Messenger& messenger) {
  begun_ = true;
  const std::int64_t chunk = messenger.chunk_bytes();
  const std::int64_t pieces = std::max<std::int64_t>(1, (bytes() + chunk - 1) / chunk);
  unfinished_ = pieces * (std::ssize(children_) + (parent_ == kNone ? 0 : 1));
  if (parent_ != kNone) return receive_piece(messenger, 0);
  std::int64_t offset = 0;
  do {  // a payload of 0 bytes is one message too: it still tells that the root is there
    const std::int64_t piece = piece_bytes(messenger, offset);
    send_piece(messenger, offset, piece);
    offset += piece;
  } while (offset < bytes());
}

void Multicast::complete(Messenger& messenger, const Message& message) {
  --unfinished_;
  if (message.sending) return;
  send_piece(messenger, message.offset, message.bytes);
  const std::int64_t next = message.offset + message.bytes;
  if (next < bytes()) receive_piece(messenger, next);
}

std::int64_t Multicast::piece_bytes(const Messenger& messenger, std::int64_t offset) const {
  return std::min(messenger.chunk_bytes(), bytes() - offset);
}

// One piece at a time: receives that are posted together may complete in any
// order, and pieces passed on in another order would be taken for each other.
void Multicast::receive_piece(Messenger& messenger, std::int64_t offset) {
  messenger.post({shared_from_this(), false, parent_, data_ + offset, offset, piece_bytes(messenger, offset)});
}

void Multicast::send_piece(Messenger& messenger, std::int64_t offset, std::int64_t bytes) {
  for (const Rank child : children_) messenger.post({shared_from_this(), true, child, data_ + offset, offset, bytes});
}

}  // namespace sluice
