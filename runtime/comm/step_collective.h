#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/comm/collective_part.h"
#include "runtime/comm/messenger.h"

namespace sluice {

/// Where the bytes lie that steps name by their offsets: one memory, or several one behind the other.
class PayloadMemory {
 public:
  explicit PayloadMemory(void* data) { add(data, 0); }
  /// The bytes from `begin` on, up to the next memory's; in ascending order.
  void add(void* data, std::int64_t begin) { parts_.push_back({begin, static_cast<std::byte*>(data)}); }
  /// The same with memory of its own.
  void add_scratch(std::int64_t begin, std::int64_t bytes);
  [[nodiscard]] std::byte* find(std::int64_t offset) const;

 private:
  struct Part {
    std::int64_t begin;
    std::byte* data;
  };
  std::vector<Part> parts_;
  std::vector<std::byte> scratch_;
};

/// Executes one rank's steps of a collective (core/moves.h). Each step is a message, or several pieces of at most
/// chunk_bytes (what is added: of at most 1 MiB, in whole floats), cut alike at both ends.
///
/// Steps are posted in the list's order, in three lanes that do not wait for each other: sends inside the node, sends
/// to other nodes, receives. A lane has a few pieces in flight; its next step waits until all steps that it comes
/// `after` are complete. So messages between two ranks are posted in the same order at both, as MPI needs it, and the
/// earliest message of the whole list that is not complete can always move: everything before it is, at both ends.
/// The one buffer for what is to be added does not change this: there, too, the earlier step comes first.
class StepCollective : public Collective {
 public:
  StepCollective(std::shared_ptr<const CollectivePart> part, PayloadMemory memory, int tag, Event ready);

  [[nodiscard]] const char* name() const override { return to_string(part_->kind); }
  void begin(Messenger& messenger) override;
  void complete(Messenger& messenger, const Message& message) override;
  [[nodiscard]] bool done() const override { return begun_ && incomplete_ == 0; }

 private:
  /// A queue of steps: those of `part_` that lane_of() says, in their order.
  struct Lane {
    std::size_t step = 0;     ///< to post next
    std::int64_t posted = 0;  ///< bytes of it that are posted
    int in_flight = 0;        ///< pieces
    std::int64_t bytes_in_flight = 0;
  };
  enum LaneName : std::size_t { kSendsInside, kSendsAcross, kReceives, kLanes };

  [[nodiscard]] static LaneName lane_of(const Step& step, const Messenger& messenger);
  [[nodiscard]] std::int64_t piece_bytes(const Step& step) const;
  void post_what_may(Messenger& messenger);
  void skip_to(LaneName name, const Messenger& messenger);
  [[nodiscard]] std::int64_t next_bytes(const Lane& lane, const Step& step) const;  ///< of the piece to post next
  [[nodiscard]] bool has_room(const Lane& lane, const Step& step) const;
  [[nodiscard]] bool may_post(LaneName name) const;
  void post_piece(LaneName name, Messenger& messenger);
  void add(const Message& message);

  std::shared_ptr<const CollectivePart> part_;
  PayloadMemory memory_;
  std::int64_t chunk_bytes_ = 0;
  bool begun_ = false;
  std::array<Lane, kLanes> lanes_;
  std::vector<std::int64_t> pieces_left_;  ///< by step: that are not complete, posted or not
  std::size_t incomplete_ = 0;             ///< steps
  std::vector<float> addends_;             ///< one piece, until it is added
  bool addends_in_use_ = false;
};

}  // namespace sluice
