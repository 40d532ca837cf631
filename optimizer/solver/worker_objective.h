#pragma once

#include "core/worker_cost.h"
#include "optimizer/solver/recompute.h"

namespace sluice {

/// What the works before a border exchange with those behind it; for bounds.
struct Crossing {
  double received_bytes = 0, sent_bytes = 0;                  ///< per micro-batch, by those before
  double weights_received_bytes = 0, weights_sent_bytes = 0;  ///< per step
  double together = 0;  ///< the ranks on either side, each cheaper than a limit, cost at least this together
};

/// What a search over workers minimises: the largest price of a worker. A price
/// follows from one worker's load and seat alone, so that a partial pipeline
/// is worth its largest price so far. More ranks from here or in all never make a worker cheaper.
class WorkerObjective {
 public:
  virtual ~WorkerObjective() = default;
  [[nodiscard]] virtual const WorkerCost& cost() const = 0;

  /// Of a worker with seat.replicas ranks, each like `rank`; infinite if it cannot be.
  [[nodiscard]] virtual double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const = 0;

  /// No worker that does all of this load and more costs less, with up to `most_replicas` ranks like `rank`.
  [[nodiscard]] virtual double floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const = 0;

  /// The least number of replicas, up to `most`, with which the worker costs less than `limit`; 0: none.
  /// @param seat  of the worker without its replicas: the ranks behind it, and all ranks
  [[nodiscard]] virtual int least_replicas(const WorkerLoad& load, const Seat& seat, int most, const RankSpec& rank,
                                           double limit) const;

  /// The worker with the layers recomputed that make it cheapest; without any where an objective knows none.
  /// @param tally  recomputes nothing; as before afterwards
  [[nodiscard]] virtual Recomputation recomputed(WorkerTally& tally, const Seat& seat, const RankSpec& rank) const;
  /// No recomputation makes a worker with this load cheaper.
  [[nodiscard]] virtual double recomputed_floor(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
    return price(load, seat, rank);
  }

  /// What crosses a border between workers. @param front  all works before the border, as if one worker had them
  [[nodiscard]] virtual Crossing crossing(const WorkerLoad& /*front*/) const { return {}; }
  /// With fewer replicas a worker between two borders costs `limit` or more, because of what crosses only one of them.
  /// @return  at least `least`, or more than `most`: with none of them it is cheaper
  [[nodiscard]] virtual int replicas_to_exchange(const Crossing& /*before*/, const Crossing& /*behind*/, int least,
                                                 int /*most*/, double /*limit*/) const {
    return least;
  }

  /// A worker of `replicas` ranks of speed 1 that costs less than `limit` computes less than this [s per micro-batch],
  /// which is in proportion to the limit, and at most `replicas` times what one rank computes. Searches are
  /// fast where this bounds them.
  [[nodiscard]] virtual double capacity_s(int /*replicas*/, double /*limit*/) const { return kInfinity; }
};

/// Ours: WorkerCost::price, the bottleneck [s per micro-batch].
class BottleneckPrice : public WorkerObjective {
 public:
  /// @param recompute  whether workers may recompute: bounds then count only what crosses borders whoever recomputes
  explicit BottleneckPrice(const WorkerCost& cost, bool recompute = false) : cost_(&cost), recompute_(recompute) {}
  [[nodiscard]] const WorkerCost& cost() const override { return *cost_; }
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override;
  [[nodiscard]] double floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const override;
  [[nodiscard]] int least_replicas(const WorkerLoad& load, const Seat& seat, int most, const RankSpec& rank,
                                   double limit) const override;
  [[nodiscard]] Recomputation recomputed(WorkerTally& tally, const Seat& seat, const RankSpec& rank) const override;
  [[nodiscard]] double recomputed_floor(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override;
  [[nodiscard]] Crossing crossing(const WorkerLoad& front) const override;
  [[nodiscard]] int replicas_to_exchange(const Crossing& before, const Crossing& behind, int least, int most,
                                         double limit) const override;
  [[nodiscard]] double capacity_s(int replicas, double limit) const override;

 private:
  [[nodiscard]] int next_share(int replicas, int most) const;

  const WorkerCost* cost_;
  bool recompute_;
};

/// Ours where workers may recompute, from below: what a worker costs at least, whatever it
/// and the others recompute.
class RecomputedFloor : public BottleneckPrice {
 public:
  explicit RecomputedFloor(const WorkerCost& cost) : BottleneckPrice(cost, true) {}
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override;
  [[nodiscard]] int least_replicas(const WorkerLoad& load, const Seat& seat, int most, const RankSpec& rank,
                                   double limit) const override {
    return WorkerObjective::least_replicas(load, seat, most, rank, limit);
  }
};

}  // namespace sluice
