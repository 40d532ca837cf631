#pragma once

#include <span>
#include <vector>

#include "core/cost_model.h"
#include "runtime/comm/messenger.h"

namespace sluice {

/// Sums float32 values over the members of a ring, in place (Patarasuk, Yuan
/// 2009). In each of 2 (r-1) rounds the i-th member sends chunk i - round to the
/// next and receives chunk i - round - 1 from the one before it, modulo r; it
/// adds what comes in the first r-1 rounds and takes the rest as it is. So the
/// chunk c is summed in the order of the ring from member c on, once: all
/// members hold the same bits, and the same in every run.
///
/// A round ends when its messages are complete; then the next one is posted.
class RingAllReduce : public Collective {
 public:
  /// As Communicator::start_all_reduce, at `rank` of `size`.
  RingAllReduce(std::span<const Edge> ring, Rank rank, int size, float* data, std::int64_t count, int tag, Event ready);

  [[nodiscard]] const char* name() const override { return "all-reduce"; }
  void begin(Messenger& messenger) override;
  void complete(Messenger& messenger, const Message& message) override;
  [[nodiscard]] bool done() const override { return begun_ && round_ == rounds(); }

 private:
  void take_place(std::span<const Edge> ring, Rank rank, int size);
  [[nodiscard]] int rounds() const { return 2 * (members_ - 1); }
  [[nodiscard]] bool sums() const { return round_ < members_ - 1; }  ///< in this round
  /// What this member sends in round `round`; it receives what it sends in the next.
  [[nodiscard]] RingChunk chunk(int round) const;

  void post_round(Messenger& messenger);
  void send_chunk(Messenger& messenger);
  void receive_piece(Messenger& messenger, std::int64_t offset);
  void add(const Message& message);

  std::byte* data_;
  int members_;
  int place_ = 0;  ///< of this rank in the ring
  Rank previous_ = kNone, next_ = kNone;
  bool begun_ = false;
  int round_ = 0;
  std::int64_t piece_bytes_ = 0;  ///< of the largest message, whole floats
  std::int64_t unfinished_ = 0;   ///< messages of this round that are posted and not complete
  std::vector<float> received_;   ///< one piece, until it is added
};

}  // namespace sluice
