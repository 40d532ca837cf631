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

int BottleneckPrice::least_replicas(const WorkerLoad& load, const Seat& seat, int most, const RankSpec& rank,
                                    double limit) const {
  const int useful = std::min(most, cost_->pricing().microbatches);  // more only all-reduce more
  const auto too_slow = [&](int replicas) {
    return cost_->compute_s(load, {replicas, replicas, replicas}, rank.speed) >= limit;
  };
  if (useful < 1 || too_slow(useful)) return 0;
  int replicas = 1;
  for (int enough = useful; replicas < enough;) {
    const int middle = (replicas + enough) / 2;
    too_slow(middle) ? replicas = middle + 1 : enough = middle;
  }
  for (; replicas <= useful; ++replicas)
    if (price(load, {replicas, seat.ranks_from_here + replicas, seat.ranks}, rank) < limit) return replicas;
  return 0;
}

/// A union counts what crosses once; workers apart send and receive no less.
double BottleneckPrice::crossing_s(const WorkerLoad& load) const { return cost_->link_s(load, {1, 1, 1}); }

double BottleneckPrice::capacity_s(int replicas, double limit) const {
  const int microbatches = cost_->pricing().microbatches;
  const int busiest = (microbatches + replicas - 1) / replicas;
  return limit * microbatches / busiest;
}

}  // namespace sluice
