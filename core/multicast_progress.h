#pragma once

#include <span>
#include <vector>

#include "core/cost_model.h"

namespace sluice {

/// How far one multicast call has come: who has started, and which of its
/// messages have moved. A message may move once its sender holds the payload
/// and both ends have started; what then happens (at once in the verifier, over
/// time in the simulator) is the caller's business.
class MulticastProgress {
 public:
  /// @param edges  multicast_edges of the group; must outlive this
  MulticastProgress(Rank root, std::span<const Edge> edges) : root_(root), edges_(edges), state_(edges.size()) {}

  /// A member starts. @return the messages that may move from now on
  std::vector<Edge> start(Rank rank);

  /// A message that could move has arrived. @return the messages that may move from now on
  std::vector<Edge> arrive(const Edge& edge);

  [[nodiscard]] bool started(Rank rank) const;

  /// True once the payload has reached the rank and it has passed it on: its wait may end.
  [[nodiscard]] bool done(Rank rank) const;

 private:
  enum class State : char { waiting, moving, arrived };
  std::vector<Edge> newly_movable();
  [[nodiscard]] bool holds(Rank rank) const;

  Rank root_;
  std::span<const Edge> edges_;
  std::vector<State> state_;  // by edge
  std::vector<Rank> started_;
};

}  // namespace sluice
