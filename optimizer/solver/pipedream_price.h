#pragma once

#include "optimizer/solver/problem.h"
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
  [[nodiscard]] double capacity_s(int replicas, double limit) const override { return replicas * limit; }

 private:
  const WorkerCost* cost_;
  double bandwidth_bytes_per_s_;
};

/// Two levels take this number cubed of time and, squared, of memory.
inline constexpr std::int64_t kMostPipedreamStates = 1000;
inline constexpr double kMostPipedreamChoices = 1e10;  ///< some ten seconds

/// PipeDream's problem on the problem's cluster; the price is PipeDream's. On one level a search with PipedreamPrice;
/// on nodes of several ranks, or where activations count, solve_pipedream_levels() with what is right, which ignores
/// memory and the deadline.
/// @throws Error (infeasible) for clusters that are no levels, and where these recurrences serve for more than
/// kMostPipedreamStates states or kMostPipedreamChoices, and for anything but joint cuts with unlimited replicas or
/// none
[[nodiscard]] Solution solve_pipedream(const Problem& problem, bool activations, Deadline deadline);

/// Of the plans that PipeDream's planner makes for the problem, as published and put right, with and without
/// activations, the one with the least bottleneck() as we count: a candidate of our own planner that needs no search.
/// Intervals only. None where PipeDream has no plan for such a cluster or such a limit of replicas, where
/// none fits memory, or where it would take more than about a second.
[[nodiscard]] Solution pipedream_candidate(const Problem& problem);

}  // namespace sluice
