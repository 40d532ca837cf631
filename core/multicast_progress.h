#pragma once

#include <span>
#include <vector>

#include "core/cost_model.h"
#include "core/index.h"

namespace sluice {

/// multicast_edges by member: made once per group, shared by its calls. A message is known by the member that it
/// goes to (its place in Group::members), since each but the root receives once.
class MulticastTree {
 public:
  MulticastTree(const Group& group, Algorithm algorithm, const Cluster& cluster);

  [[nodiscard]] int members() const { return members_; }
  [[nodiscard]] int root() const { return root_; }
  [[nodiscard]] int member(Rank rank) const;  ///< @throws Error (bad input) if it is none
  [[nodiscard]] Rank rank(int member) const { return table_[at(member)]; }
  [[nodiscard]] int sender(int member) const { return table_[at(members_ + member)]; }  ///< kNone: root
  /// To whom a member passes the payload on, in the order of multicast_edges.
  [[nodiscard]] std::span<const int> receivers(int member) const {
    const int* ends = &table_[at(2 * members_)];
    return std::span(table_).subspan(at(ends[member]), at(ends[member + 1] - ends[member]));
  }

 private:
  int members_;
  int root_ = kNone;
  // Large simulations walk thousands of trees in turn, so each is one piece of memory: ranks, ascending; senders; where
  // each member's receivers begin; receivers.
  std::vector<int> table_;
};

/// How far one multicast call has come: who has started, and which of its
/// messages have moved. A message may move once its sender holds the payload
/// and both ends have started; what then happens (at once in the verifier, over
/// time in the simulator) is the caller's business.
class MulticastProgress {
 public:
  /// @param tree  must outlive this
  explicit MulticastProgress(const MulticastTree& tree) { restart(tree); }

  /// Forgets everything, but keeps the memory for another call.
  void restart(const MulticastTree& tree);

  /// A member starts. Calls move(receiver) for the messages that may move from now on.
  template <typename Move>
  void start(int member, Move move) {
    State& state = states_[at(member)];
    if (state.started) return;
    state.started = true;
    if (state.holds) return pass_on(member, move);
    const State& sender = states_[at(tree_->sender(member))];
    if (sender.started && sender.holds) move(member);
  }

  /// The message to a member has arrived. Calls move(receiver) for those that may move from now on.
  template <typename Move>
  void arrive(int member, Move move) {
    states_[at(member)].holds = true;
    --states_[at(tree_->sender(member))].unsent;
    pass_on(member, move);
  }

  [[nodiscard]] bool started(int member) const { return states_[at(member)].started; }

  /// True once the payload has reached the member and it has passed it on: its wait may end.
  [[nodiscard]] bool done(int member) const {
    const State& state = states_[at(member)];
    return state.holds && state.unsent == 0;
  }

 private:
  struct State {
    bool started = false;
    bool holds = false;
    int unsent = 0;  // messages that have not arrived
  };

  template <typename Move>
  void pass_on(int member, Move move) {
    for (const int receiver : tree_->receivers(member))
      if (states_[at(receiver)].started) move(receiver);
  }

  const MulticastTree* tree_ = nullptr;
  std::vector<State> states_;  // by member
};

}  // namespace sluice
