#pragma once

#include <string>

#include "core/plan.h"
#include "optimizer/schedule/partition.h"

namespace sluice {

struct PlanRequest {
  const Profile& profile;
  const Cluster& cluster;
  std::string schedule;  ///< "sequential", "gpipe" or "1f1b"
  int microbatches = 1;  ///< M
  Partition partition;
  bool compute_only = false;  ///< the plan's cluster gets free links
  MulticastAlgorithm algorithm = MulticastAlgorithm::hierarchical;
};

/// Generator and lowering: stages, groups, transfers, and the programs "step"
/// and "evaluate". Ranks beyond the partition's workers have empty lists. What
/// the planner knows (method, status, figures, options) is left for it to fill.
/// @throws Error (infeasible) for what the schedule lacks and for more workers than ranks;
/// Error (bad input) for an unknown schedule and for bounds that do not cover the layers.
[[nodiscard]] Plan build_plan(const PlanRequest& request);

}  // namespace sluice
