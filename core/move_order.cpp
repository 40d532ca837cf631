#include "core/move_order.h"

namespace sluice {

void Conflicts::divide(std::span<const Access> accesses) {
  begins_.clear();
  for (const Access& access : accesses) {
    begins_.push_back(access.offset);
    begins_.push_back(end(access));
  }
  std::sort(begins_.begin(), begins_.end());
  begins_.erase(std::unique(begins_.begin(), begins_.end()), begins_.end());
  pieces_.assign(begins_.size(), {});
  reads_.clear();
  told_.assign(accesses.size(), kNone);
}

std::size_t Conflicts::piece_at(std::int64_t offset) const {
  return static_cast<std::size_t>(std::lower_bound(begins_.begin(), begins_.end(), offset) - begins_.begin());
}

MoveOrder::MoveOrder(std::span<const Move> moves) : waits_(moves.size(), 0), begins_(moves.size() + 1, 0) {
  struct Place {
    Rank rank;
    int move;
    bool sends;
  };
  std::vector<Place> places;
  for (int m = 0; m < std::ssize(moves); ++m) {
    places.push_back({moves[at(m)].from, m, true});
    places.push_back({moves[at(m)].to, m, false});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return std::pair(a.rank, a.move) < std::pair(b.rank, b.move); });

  std::vector<std::pair<int, int>> pairs;
  std::vector<Access> accesses;
  Conflicts conflicts;
  for (auto begin = places.begin(); begin != places.end();) {
    const auto end = std::find_if(begin, places.end(), [&](const Place& place) { return place.rank != begin->rank; });
    accesses.clear();
    for (auto place = begin; place != end; ++place) {
      const Move& move = moves[at(place->move)];
      accesses.push_back({place->sends, place->sends ? move.offset : move.target, move.bytes});
    }
    conflicts.find(accesses,
                   [&](int earlier, int later) { pairs.emplace_back(begin[earlier].move, begin[later].move); });
    begin = end;
  }
  for (const auto& [earlier, later] : pairs) {
    ++waits_[at(later)];
    ++begins_[at(earlier) + 1];
  }
  for (std::size_t m = 0; m < moves.size(); ++m) begins_[m + 1] += begins_[m];
  held_up_.resize(pairs.size());
  std::vector<int> next(begins_.begin(), begins_.end() - 1);
  for (const auto& [earlier, later] : pairs) held_up_[at(next[at(earlier)]++)] = later;
}

}  // namespace sluice
