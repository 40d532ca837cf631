#include "optimizer/solver/worker_objective.h"

#include <algorithm>

namespace sluice {

int WorkerObjective::least_replicas(const WorkerLoad& load, const Seat& seat, int most, const RankSpec& rank,
                                    double limit) const {
  for (int replicas = 1; replicas <= most; ++replicas)
    if (price(load, {replicas, seat.ranks_from_here + replicas, seat.ranks}, rank) < limit) return replicas;
  return 0;
}

double BottleneckPrice::price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  return cost_->price(load, seat, rank);
}

double BottleneckPrice::floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const {
  // Compute only grows with the load; traffic may shrink, and so may what is held for it.
  const int useful = std::min(most_replicas, cost_->pricing().microbatches);
  return cost_->compute_s(load, {useful, useful, useful}, rank.speed);
}

}  // namespace sluice
