#include "core/collective_progress.h"

#include <algorithm>

#include "core/error.h"
#include "core/move_order.h"
#include "core/text.h"

namespace sluice {

int Collectives::add(const Group& group, std::span<const Move> moves) {
  const Shape shape{.first_member = static_cast<int>(members_.size()) - 1,
                    .members = static_cast<int>(group.members.size()),
                    .first_move = static_cast<int>(moves_.size()) - 1,
                    .first_state = static_cast<int>(states_.size()),
                    .states = static_cast<int>(2 * group.members.size() + moves.size())};
  members_.pop_back();
  for (const Rank rank : group.members) members_.push_back({.rank = rank});
  members_.emplace_back();
  moves_.pop_back();
  for (const Move& move : moves)
    moves_.push_back({.bytes = move.bytes, .from = member(shape, move.from), .to = member(shape, move.to)});
  moves_.emplace_back();
  states_.resize(at(shape.first_state + shape.states), 0);
  add_order(shape, moves);
  shapes_.push_back(shape);
  return static_cast<int>(shapes_.size()) - 1;
}

void Collectives::add_order(const Shape& shape, std::span<const Move> moves) {
  const std::span<int> left = std::span(states_).subspan(at(shape.first_state), at(shape.members));
  const std::span<int> waits = std::span(states_).subspan(at(shape.first_state + 2 * shape.members));
  const MoveOrder order(moves);
  std::vector<std::vector<int>> own(at(shape.members));
  for (int i = 0; i < std::ssize(moves); ++i) {
    Passage& passage = moves_[at(shape.first_move + i)];
    for (const int member : {passage.from, passage.to})
      own[at(member - shape.first_member)].push_back(shape.first_move + i);
    waits[at(i)] = 2 + order.waits(i);
    passage.first_follower = static_cast<int>(followers_.size());
    for (const int follower : order.held_up(i)) followers_.push_back(shape.first_move + follower);
  }
  moves_.back().first_follower = static_cast<int>(followers_.size());
  for (int m = 0; m < shape.members; ++m) {
    left[at(m)] = static_cast<int>(own[at(m)].size());
    members_[at(shape.first_member + m)].first_own = static_cast<int>(own_.size());
    own_.insert(own_.end(), own[at(m)].begin(), own[at(m)].end());
  }
  members_.back().first_own = static_cast<int>(own_.size());
}

int Collectives::member(const Shape& shape, Rank rank) const {
  const auto begin = members_.begin() + shape.first_member, end = begin + shape.members;
  const auto found = std::lower_bound(begin, end, rank, [](const Member& a, Rank b) { return a.rank < b; });
  if (found == end || found->rank != rank)
    throw bad_input(text("rank ", rank, " takes part in a collective whose group does not have it"));
  return static_cast<int>(found - members_.begin());
}

void CollectiveProgress::restart(int collective) {
  shape_ = (*all_)[collective];
  const std::span<const int> states = all_->states(shape_);
  states_.assign(states.begin(), states.end());
}

}  // namespace sluice
