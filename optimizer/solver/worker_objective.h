#pragma once

#include "core/worker_cost.h"

namespace sluice {

/// What a search over workers minimises: the largest price of a worker. A price
/// follows from one worker's load and seat alone, so that a partial pipeline
/// is worth its largest price so far.
class WorkerObjective {
 public:
  virtual ~WorkerObjective() = default;
  [[nodiscard]] virtual const WorkerCost& cost() const = 0;

  /// Of a worker with seat.replicas ranks, each like `rank`; infinite if it cannot be.
  [[nodiscard]] virtual double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const = 0;

  /// No worker that does all of this load and more costs less, with up to `most_replicas` ranks like `rank`.
  [[nodiscard]] virtual double floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const = 0;
};

/// Ours: WorkerCost::price, the bottleneck [s per micro-batch].
class BottleneckPrice : public WorkerObjective {
 public:
  explicit BottleneckPrice(const WorkerCost& cost) : cost_(&cost) {}
  [[nodiscard]] const WorkerCost& cost() const override { return *cost_; }
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override;
  [[nodiscard]] double floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const override;

 private:
  const WorkerCost* cost_;
};

}  // namespace sluice
