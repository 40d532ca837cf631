#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "optimizer/solver/solver.h"

namespace sluice {
namespace {

constexpr double kMostPartitions = 2e6;

/// Calls `visit` with every ascending vector of bounds 0, ..., layers for `ranks` ranks.
template <typename Visit>
void for_each_bounds(std::vector<int>& bounds, int ranks, int layers, const Visit& visit) {
  if (std::ssize(bounds) == ranks) {
    bounds.push_back(layers);
    visit(bounds);
    bounds.pop_back();
    return;
  }
  for (int bound = bounds.back(); bound <= layers; ++bound) {
    bounds.push_back(bound);
    for_each_bounds(bounds, ranks, layers, visit);
    bounds.pop_back();
  }
}

double partitions(int ranks, int layers, Cuts cuts) {
  double vectors = 1;  // binomial(layers + ranks - 1, ranks - 1)
  for (int i = 1; i < ranks; ++i) vectors = vectors * (layers + i) / i;
  return cuts == Cuts::joint ? vectors : vectors * vectors;
}

}  // namespace

std::optional<PartitionSolution> solve_exhaustively(const Objective& objective, Cuts cuts) {
  const int workers = objective.workers();
  const double count = partitions(objective.ranks(), objective.layers(), cuts);
  if (count > kMostPartitions)
    throw infeasible(text("exhaustive search would try ", count, " partitions, at most ", kMostPartitions,
                          " are tried: use --method dp"));
  PartitionSolution best;
  const auto consider = [&](const Partition& partition) {
    if (used_workers(partition) != workers) return;
    const double candidate = price(objective, partition);
    if (candidate < best.price) best = {partition, workers, candidate};
  };
  std::vector<int> forward{0};
  for_each_bounds(forward, objective.ranks(), objective.layers(), [&](const std::vector<int>& forward_bounds) {
    if (cuts == Cuts::joint) return consider({forward_bounds, forward_bounds});
    std::vector<int> backward{0};
    for_each_bounds(backward, objective.ranks(), objective.layers(), [&](const std::vector<int>& backward_bounds) {
      consider({forward_bounds, backward_bounds});
    });
  });
  if (std::isinf(best.price)) return std::nullopt;
  return best;
}

}  // namespace sluice
