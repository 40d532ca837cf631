#include "optimizer/solver/worker_objective.h"

#include <algorithm>

namespace sluice {

int WorkerObjective::least_replicas(const WorkerLoad& load, const Seat& seat, int most, const RankSpec& rank,
                                    double limit) const {
  for (int replicas = 1; replicas <= most; ++replicas)
    if (price(load, {replicas, seat.ranks_from_here + replicas, seat.ranks}, rank) < limit) return replicas;
  return 0;
}

Recomputation WorkerObjective::recomputed(WorkerTally& tally, const Seat& seat, const RankSpec& rank) const {
  const double plain = price(tally.load(), seat, rank);
  return {{}, plain, plain};
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
  const auto seat_of = [&](int replicas) { return Seat{replicas, seat.ranks_from_here + replicas, seat.ranks}; };
  // More replicas compute and hold less each, up to one for each micro-batch.
  const auto lacks = [&](int replicas) {
    return cost_->compute_s(load, seat_of(replicas), rank.speed) >= limit ||
           cost_->memory_bytes(load, seat_of(replicas)) > rank.memory_bytes;
  };
  most = std::min(most, cost_->pricing().microbatches);
  if (most < 1 || lacks(most)) return 0;
  int replicas = 1;
  for (int enough = most; replicas < enough;) {
    const int middle = (replicas + enough) / 2;
    lacks(middle) ? replicas = middle + 1 : enough = middle;
  }
  // They all-reduce more and exchange less, but only where the busiest has a micro-batch less.
  WorkerLoad all_reduced;
  all_reduced.updated_bytes = load.updated_bytes;
  while (replicas <= most && cost_->link_s(all_reduced, seat_of(replicas)) < limit) {
    if (cost_->link_s(load, seat_of(replicas)) < limit) return replicas;
    replicas = next_share(replicas, most);
  }
  return 0;
}

Recomputation BottleneckPrice::recomputed(WorkerTally& tally, const Seat& seat, const RankSpec& rank) const {
  constexpr int kSteps = 1 << 12;  // proves the best of few layers; searches ask for many workers
  return best_recomputation(tally, *cost_, seat, rank, kSteps);
}

double BottleneckPrice::recomputed_floor(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  return recomputation_floor(*cost_, load, seat, rank);
}

double RecomputedFloor::price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  WorkerLoad least = load;
  least.sent_bytes = load.least_sent_bytes;
  return recomputed_floor(least, seat, rank);
}

Crossing BottleneckPrice::crossing(const WorkerLoad& front) const {
  WorkerLoad load;
  load.received_bytes = recompute_ ? front.least_received_bytes : front.received_bytes;
  load.sent_bytes = recompute_ ? front.least_sent_bytes : front.sent_bytes;
  load.weights_received_bytes = front.weights_received_bytes;
  load.weights_sent_bytes = front.weights_sent_bytes;
  // A union counts what crosses once; workers apart send and receive no less.
  return {load.received_bytes, load.sent_bytes, load.weights_received_bytes, load.weights_sent_bytes,
          cost_->link_s(load, {1, 1, 1})};
}

int BottleneckPrice::replicas_to_exchange(const Crossing& before, const Crossing& behind, int least, int most,
                                          double limit) const {
  // Whatever crosses one of the borders only is made or needed in between. The worker receives things made before and
  // others made behind; what it sends may be needed on both sides.
  const auto more = [](double bytes, double other) { return std::max(0.0, bytes - other); };
  WorkerLoad load;
  load.received_bytes = more(before.sent_bytes, behind.sent_bytes) + more(behind.received_bytes, before.received_bytes);
  load.sent_bytes =
      std::max(more(before.received_bytes, behind.received_bytes), more(behind.sent_bytes, before.sent_bytes));
  load.weights_received_bytes = more(before.weights_sent_bytes, behind.weights_sent_bytes) +
                                more(behind.weights_received_bytes, before.weights_received_bytes);
  load.weights_sent_bytes = std::max(more(before.weights_received_bytes, behind.weights_received_bytes),
                                     more(behind.weights_sent_bytes, before.weights_sent_bytes));
  int replicas = least;
  while (replicas <= most && cost_->link_s(load, {replicas, replicas, replicas}) >= limit)
    replicas = next_share(replicas, most);
  return replicas;
}

/// The least number of replicas of which the busiest has fewer micro-batches; most + 1 if there is none.
int BottleneckPrice::next_share(int replicas, int most) const {
  const int microbatches = cost_->pricing().microbatches, busiest = microbatches_of(0, replicas, microbatches);
  // As many replicas as hold one micro-batch less each.
  return busiest == 1 ? most + 1 : std::max(replicas + 1, microbatches_of(0, busiest - 1, microbatches));
}

double BottleneckPrice::capacity_s(int replicas, double limit) const {
  const int microbatches = cost_->pricing().microbatches;
  return limit * microbatches / microbatches_of(0, replicas, microbatches);
}

}  // namespace sluice
