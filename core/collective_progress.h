#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/index.h"
#include "core/moves.h"

namespace sluice {

/// Collectives made ready for playing, each shared by all of its calls: who takes part, which moves there are and which
/// wait for which (MoveOrder). Members and moves are numbered through all collectives; all of them lie in
/// few pieces of memory, since large simulations walk thousands in turn.
class Collectives {
 public:
  struct Shape {
    int first_member = 0, members = 0;
    int first_move = 0;
    int first_state = 0, states = 0;
  };
  struct Passage {
    std::int64_t bytes = 0;
    int from = 0, to = 0;  ///< members
    int first_follower = 0;
  };

  /// @return its number: 0, 1, ...
  int add(const Group& group, std::span<const Move> moves);

  [[nodiscard]] const Shape& operator[](int collective) const { return shapes_[at(collective)]; }
  [[nodiscard]] int member(const Shape& shape, Rank rank) const;  ///< @throws Error (bad input) if it is none
  [[nodiscard]] Rank rank(int member) const { return members_[at(member)].rank; }
  [[nodiscard]] std::span<const Passage> moves() const { return moves_; }
  [[nodiscard]] const Passage& move(int number) const { return moves_[at(number)]; }
  /// What a member sends and receives, in the list's order.
  [[nodiscard]] std::span<const int> moves_of(int member) const {
    return part(own_, members_[at(member)].first_own, members_[at(member) + 1].first_own);
  }
  /// As CollectiveProgress counts: by member, its moves; by member, 0; by move, what it waits for: the start of its two
  /// ends, and earlier moves.
  [[nodiscard]] std::span<const int> states(const Shape& shape) const {
    return part(states_, shape.first_state, shape.first_state + shape.states);
  }
  /// Which moves wait for one.
  [[nodiscard]] std::span<const int> followers(int move) const {
    return part(followers_, moves_[at(move)].first_follower, moves_[at(move) + 1].first_follower);
  }

 private:
  struct Member {
    Rank rank = kNone;
    int first_own = 0;
  };

  static std::span<const int> part(const std::vector<int>& all, int begin, int end) {
    return std::span(all).subspan(at(begin), at(end - begin));
  }
  void add_order(const Shape& shape, std::span<const Move> moves);

  std::vector<Shape> shapes_;
  std::vector<Member> members_{{}};  // of each collective ascending; one more, where the lists end
  std::vector<Passage> moves_{{}};   // likewise
  std::vector<int> own_, followers_, states_;
};

/// How far one call of a collective has come: a move may begin once both its ends have started and all moves that it
/// waits for are done; what then happens (at once in the verifier, over time in the simulator) is the caller's
/// business.
class CollectiveProgress {
 public:
  /// @param all  must outlive this
  CollectiveProgress(const Collectives& all, int collective) : all_(&all) { restart(collective); }

  /// Forgets everything, but keeps the memory for another call.
  void restart(int collective);

  /// A member starts. Calls ready(move) for those that may begin from now on.
  template <typename Ready>
  void start(int member, Ready ready) {
    int& has_started = states_[at(member - shape_.first_member + shape_.members)];
    if (has_started != 0) return;
    has_started = 1;
    for (const int move : all_->moves_of(member)) release(move, ready);
  }

  /// A move is done. Calls ready(move) for those that may begin from now on.
  template <typename Ready>
  void finish(int move, Ready ready) {
    const Collectives::Passage& done = all_->move(move);
    --states_[at(done.from - shape_.first_member)];
    --states_[at(done.to - shape_.first_member)];
    for (const int follower : all_->followers(move)) release(follower, ready);
  }

  [[nodiscard]] bool started(int member) const {
    return states_[at(member - shape_.first_member + shape_.members)] != 0;
  }

  /// True once a member that has started has sent and received all: its wait may end.
  [[nodiscard]] bool done(int member) const { return states_[at(member - shape_.first_member)] == 0; }

  [[nodiscard]] const Collectives::Shape& shape() const { return shape_; }

 private:
  template <typename Ready>
  void release(int move, Ready ready) {
    if (--states_[at(move - shape_.first_move + 2 * shape_.members)] == 0) ready(move);
  }

  const Collectives* all_;
  Collectives::Shape shape_;
  // In one piece: by member, moves that are not done; by member, whether it has started; by move, what it waits for.
  std::vector<int> states_;
};

}  // namespace sluice
