#include "optimizer/solver/problem.h"

#include <algorithm>
#include <tuple>

#include "core/cost_model.h"
#include "core/index.h"

namespace sluice {

const char* to_string(Cuts cuts) {
  switch (cuts) {
    case Cuts::joint:
      return "joint";
    case Cuts::independent:
      return "independent";
    case Cuts::three:
      return "three";
  }
  return "unknown";
}

std::vector<Work> works_of(Cuts cuts) {
  if (cuts == Cuts::three) return {Work::forward, Work::backward_input, Work::backward_weight};
  return {Work::forward, Work::backward};
}

void sort_replicas(std::vector<Rank>& ranks, const Cluster& cluster) {
  const auto key = [&](Rank rank) {
    const RankSpec& spec = cluster.ranks[at(rank)];
    return std::tuple(-spec.speed, spec.node, rank);
  };
  std::sort(ranks.begin(), ranks.end(), [&](Rank a, Rank b) { return key(a) < key(b); });
}

double price_of(const Problem& problem, const std::vector<Stage>& stages) {
  const Loads loads = loads_of(problem.profile, problem.cluster, stages, problem.pricing);
  return bottleneck(problem.cluster, loads, problem.pricing).seconds;
}

double compute_bound(const Problem& problem) {
  double total_s = 0, speed = 0;
  for (const LayerCost& cost : problem.profile.costs)
    total_s += work_time(cost, Work::forward) + work_time(cost, Work::backward) +
               cost.update_s / microbatches_per_update(problem.pricing);
  for (const RankSpec& rank : problem.cluster.ranks) speed += rank.speed;
  return total_s / speed * kSafely;
}

}  // namespace sluice
