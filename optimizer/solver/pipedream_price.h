#pragma once

#include "optimizer/solver/worker_objective.h"

namespace sluice {

/// PipeDream's price of a worker [s per minibatch], pipedream_stage_s(), for searches on one level. What a rank
/// holds is counted as ours is. Traffic between stages is free, as it is in the published planner unless asked for.
class PipedreamPrice : public WorkerObjective {
 public:
  /// Keeps a reference to `cost`.
  PipedreamPrice(const WorkerCost& cost, double bandwidth_bytes_per_s)
      : cost_(&cost), bandwidth_bytes_per_s_(bandwidth_bytes_per_s) {}
  [[nodiscard]] const WorkerCost& cost() const override { return *cost_; }
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override;
  [[nodiscard]] double floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const override;

 private:
  const WorkerCost* cost_;
  double bandwidth_bytes_per_s_;
};

}  // namespace sluice
