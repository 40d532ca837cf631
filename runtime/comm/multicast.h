#pragma once

#include <span>
#include <vector>

#include "core/cost_model.h"
#include "runtime/comm/messenger.h"

namespace sluice {

/// A payload goes down a tree in pieces of at most chunk_bytes, in order; a
/// member passes each piece on when it is here.
///
/// States: waiting for its `ready` -> posted (the root's sends, or the first
/// receive; each completed receive posts its sends and the next) -> done.
class Multicast : public Collective {
 public:
  /// As Communicator::start_multicast, at `rank` of `size`.
  Multicast(std::span<const Edge> edges, Rank rank, int size, void* data, std::int64_t bytes, int tag, Event ready);

  [[nodiscard]] const char* name() const override { return "multicast"; }
  void begin(Messenger& messenger) override;
  void complete(Messenger& messenger, const Message& message) override;
  [[nodiscard]] bool done() const override { return begun_ && unfinished_ == 0; }

 private:
  void take_place(std::span<const Edge> edges, Rank rank, int size);
  void receive_piece(Messenger& messenger, std::int64_t offset);
  void send_piece(Messenger& messenger, std::int64_t offset, std::int64_t bytes);
  [[nodiscard]] std::int64_t piece_bytes(const Messenger& messenger, std::int64_t offset) const;

  std::byte* data_;
  Rank parent_ = kNone;         ///< kNone: the root
  std::vector<Rank> children_;  ///< in the order of the edges
  bool begun_ = false;
  std::int64_t unfinished_ = 0;  ///< messages that are not complete, posted or not
};

}  // namespace sluice
