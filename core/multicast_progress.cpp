#include "core/multicast_progress.h"

#include <algorithm>

namespace sluice {

std::vector<Edge> MulticastProgress::start(Rank rank) {
  started_.push_back(rank);
  return newly_movable();
}

std::vector<Edge> MulticastProgress::arrive(const Edge& edge) {
  const auto found = std::find(edges_.begin(), edges_.end(), edge);
  state_[static_cast<std::size_t>(found - edges_.begin())] = State::arrived;
  return newly_movable();
}

bool MulticastProgress::started(Rank rank) const {
  return std::find(started_.begin(), started_.end(), rank) != started_.end();
}

bool MulticastProgress::done(Rank rank) const {
  if (!holds(rank)) return false;
  for (std::size_t e = 0; e < edges_.size(); ++e)
    if (edges_[e].from == rank && state_[e] != State::arrived) return false;
  return true;
}

std::vector<Edge> MulticastProgress::newly_movable() {
  std::vector<Edge> movable;
  for (std::size_t e = 0; e < edges_.size(); ++e) {
    const auto& [from, to] = edges_[e];
    if (state_[e] != State::waiting || !started(from) || !started(to) || !holds(from)) continue;
    state_[e] = State::moving;
    movable.push_back(edges_[e]);
  }
  return movable;
}

bool MulticastProgress::holds(Rank rank) const {
  if (rank == root_) return true;
  for (std::size_t e = 0; e < edges_.size(); ++e)
    if (edges_[e].to == rank) return state_[e] == State::arrived;
  return false;
}

}  // namespace sluice
