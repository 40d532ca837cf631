#include "optimizer/solver/ilp/seatings.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/index.h"
#include "optimizer/solver/ilp/loads.h"

namespace sluice {
namespace {

bool has_one_class_of_links(const Problem& problem) {
  const std::size_t nodes = problem.cluster.node_names.size();
  return nodes == 1 || nodes == problem.cluster.ranks.size() || problem.pricing.compute_only;
}

/// Ranks that are alike, in ascending order.
std::vector<std::vector<Rank>> kinds_of_ranks(const Problem& problem) {
  std::vector<std::vector<Rank>> kinds;
  const bool one_class = has_one_class_of_links(problem);
  const auto key = [&](Rank rank) {
    const RankSpec& spec = problem.cluster.ranks[at(rank)];
    return std::tuple(one_class ? 0 : spec.node, spec.speed, spec.memory_bytes);
  };
  for (Rank rank = 0; rank < std::ssize(problem.cluster.ranks); ++rank) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return key(k[0]) == key(rank); });
    if (known == kinds.end())
      kinds.push_back({rank});
    else
      known->push_back(rank);
  }
  return kinds;
}

/// What tells a node from others, but for its number.
std::vector<std::pair<double, std::int64_t>> make_of(const Cluster& cluster, int node) {
  std::vector<std::pair<double, std::int64_t>> make;
  for (const RankSpec& rank : cluster.ranks)
    if (rank.node == node) make.emplace_back(rank.speed, rank.memory_bytes);
  return make;
}

/// Lists the orders of ranks, position by position.
class Orders {
 public:
  Orders(const Problem& problem, std::size_t most)
      : cluster_(problem.cluster),
        kinds_(kinds_of_ranks(problem)),
        nodes_differ_(!has_one_class_of_links(problem)),
        most_(most),
        used_(kinds_.size()) {}

  /// By position: the rank. Up to one more than `most`.
  std::vector<std::vector<Rank>> list() {
    extend();
    return std::move(orders_);
  }

 private:
  void extend() {
    if (order_.size() == cluster_.ranks.size()) orders_.push_back(order_);
    for (std::size_t kind = 0; kind < kinds_.size() && orders_.size() <= most_; ++kind) {
      if (used_[kind] == kinds_[kind].size()) continue;
      const Rank rank = kinds_[kind][used_[kind]];
      if (nodes_differ_ && has_earlier_twin(cluster_.ranks[at(rank)].node)) continue;
      ++used_[kind];
      order_.push_back(rank);
      extend();
      order_.pop_back();
      --used_[kind];
    }
  }

  /// True if the node and an earlier one of the same make have both no rank seated yet.
  [[nodiscard]] bool has_earlier_twin(int node) const {
    const auto is_seated = [&](int n) {
      return std::any_of(order_.begin(), order_.end(), [&](Rank rank) { return cluster_.ranks[at(rank)].node == n; });
    };
    if (is_seated(node)) return false;
    for (int earlier = 0; earlier < node; ++earlier)
      if (!is_seated(earlier) && make_of(cluster_, earlier) == make_of(cluster_, node)) return true;
    return false;
  }

  const Cluster& cluster_;
  const std::vector<std::vector<Rank>> kinds_;
  const bool nodes_differ_;
  const std::size_t most_;
  std::vector<std::size_t> used_;  // by kind: ranks seated
  std::vector<Rank> order_;
  std::vector<std::vector<Rank>> orders_;
};

std::vector<int> positions_of(const std::vector<Rank>& order) {
  std::vector<int> positions(order.size());
  for (int k = 0; k < std::ssize(order); ++k) positions[at(order[at(k)])] = k;
  return positions;
}

}  // namespace

int seats_per_rank(const SearchSpace& space) {
  if (!space.free_backward) return 1;
  return space.cuts == Cuts::three ? 3 : 2;
}

std::vector<Seating> distinct_seatings(const Problem& problem, std::size_t most) {
  std::vector<Seating> seatings;
  for (const std::vector<Rank>& order : Orders(problem, most).list()) seatings.push_back({positions_of(order)});
  // Once the forwards are seated, no two ranks are alike.
  for (int seat = 1; seat < seats_per_rank(problem.space) && seatings.size() <= most; ++seat) {
    std::vector<Seating> longer;
    for (const Seating& seating : seatings) {
      std::vector<int> positions(problem.cluster.ranks.size());
      std::iota(positions.begin(), positions.end(), 0);
      do {
        longer.push_back(seating);
        longer.back().push_back(positions);
      } while (longer.size() <= most && std::next_permutation(positions.begin(), positions.end()));
    }
    seatings = std::move(longer);
  }
  if (seatings.size() > most) seatings.clear();
  return seatings;
}

bool numbers_matter(const Problem& problem) {
  const std::vector<std::vector<Rank>> kinds = kinds_of_ranks(problem);
  const bool alike = std::any_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.size() > 1; });
  return alike && !has_one_class_of_links(problem) && rank_links_may_bind(problem);
}

std::vector<Seating> relabelled(const Problem& problem, const Seating& seating) {
  std::vector<Seating> all{seating};
  for (const std::vector<Rank>& kind : kinds_of_ranks(problem)) {
    std::vector<Seating> more;
    for (const Seating& known : all) {
      std::vector<Rank> names = kind;
      do {
        more.push_back(known);
        for (std::size_t i = 0; i < kind.size(); ++i)
          for (std::size_t seat = 0; seat < known.size(); ++seat)
            more.back()[seat][at(names[i])] = known[seat][at(kind[i])];
      } while (std::next_permutation(names.begin(), names.end()));
    }
    all = std::move(more);
  }
  return all;
}

}  // namespace sluice
