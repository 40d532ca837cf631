#pragma once

#include <string>
#include <vector>

#include "optimizer/solver/problem.h"

namespace sluice {

/// Whose objective is minimised: ours, or that of other planners, for comparison.
enum class CostModel : std::uint8_t {
  sluice,
  pipedream,              ///< Narayanan et al. 2019, as its code is published: traffic between stages is free
  pipedream_activations,  ///< the same with the traffic between stages, as its code has it if asked for
  msr,                    ///< Tarnawski et al. 2020
  msr_apart,              ///< the same without co-location
};
inline constexpr int kCostModels = 5;
[[nodiscard]] const char* to_string(CostModel cost);

/// The best plan under a foreign cost; price and bound are that cost [s].
/// PipeDream: replicas and memory as the problem allows; joint cuts, over intervals or ideals.
/// MSR: forward stages only, one owner each, backward nodes being layers of their own; such
/// a plan is a partition, it has no schedule.
/// @throws Error (infeasible) for clusters and profiles that the foreign planner does not know
[[nodiscard]] Solution solve_foreign(const Problem& problem, CostModel cost, Deadline deadline);

/// Whether the plan can be built and run: MSR's cannot.
[[nodiscard]] inline bool has_schedule(CostModel cost) { return cost < CostModel::msr; }

/// A plan of the stages alone, without programs; its bottleneck is the solution's price.
[[nodiscard]] Plan bare_partition(const Problem& problem, const Solution& solution);

}  // namespace sluice
