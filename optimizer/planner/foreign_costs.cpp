#include "optimizer/planner/foreign_costs.h"

#include <algorithm>

#include "core/text.h"
#include "optimizer/solver/msr_price.h"
#include "optimizer/solver/pipedream_price.h"

namespace sluice {
const char* to_string(CostModel cost) {
  switch (cost) {
    case CostModel::sluice:
      return "sluice";
    case CostModel::pipedream:
      return "pipedream";
    case CostModel::pipedream_activations:
      return "pipedream-activations";
    case CostModel::msr:
      return "msr";
    case CostModel::msr_apart:
      return "msr-apart";
  }
  return "unknown";
}

Plan bare_partition(const Problem& problem, const Solution& solution) {
  Plan plan;
  plan.profile = problem.profile;
  plan.cluster = problem.cluster;
  plan.schedule = "none";
  plan.stages = solution.stages;
  const std::vector<double> loads = msr_loads(problem.profile, problem.cluster, solution.stages);
  plan.figures = {.cuts = "none", .workers = static_cast<int>(solution.stages.size()), .bottleneck_s = solution.price};
  plan.figures.bound_by = text("rank ", std::max_element(loads.begin(), loads.end()) - loads.begin());
  return plan;
}

Solution solve_foreign(const Problem& problem, CostModel cost, Deadline deadline) {
  Problem theirs = problem;
  theirs.space.cuts = cost == CostModel::msr_apart ? Cuts::independent : Cuts::joint;
  if (!has_schedule(cost)) return solve_msr(theirs, deadline);
  return solve_pipedream(theirs, cost == CostModel::pipedream_activations, deadline);
}

}  // namespace sluice
