#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optimizer/planner/candidates.h"
#include "optimizer/schedule/build_plan.h"

namespace sluice {

enum class Goal { step, bottleneck };

struct PlannerRequest {
  SearchRequest search;
  Goal goal = Goal::step;  ///< compute_only implies bottleneck
  bool exactly = false;    ///< every rank has some work; otherwise at most all ranks do
  /// Fixed cuts instead of a search: positions between the workers, one less than
  /// these, not descending, 0 to L. One of the two stands for both.
  std::optional<std::vector<int>> forward_cuts = {}, backward_cuts = {};
};

struct PlannerResult {
  Plan plan;                       ///< verified; figures, runners-up, method and status filled in
  std::vector<std::string> notes;  ///< what a user should know about it, a line each
};

/// Finds candidates, builds each, drops what does not fit or is not supported, simulates the
/// rest and takes the best under the goal. Among the candidates is always the
/// best joint plan, so independent cuts are never worse than joint ones.
/// status is "optimal" if the plan's bottleneck is the least of all partitions
/// with the requested cuts (within the safe memory count), else "feasible".
/// @throws Error (infeasible) if nothing fits, naming the rank that holds too much,
/// and for what a schedule lacks; Error (usage) for cuts that are no cuts.
[[nodiscard]] PlannerResult make_plan(const PlannerRequest& request);

}  // namespace sluice
