#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "optimizer/planner/foreign_costs.h"
#include "optimizer/planner/solve.h"
#include "optimizer/schedule/schedule_text.h"

namespace sluice {

/// Each makes instructions by the dozen: beyond this the limit of a plan's file is in sight.
inline constexpr int kMostMicrobatches = 1'000'000;

enum class Goal : std::uint8_t { step, bottleneck };

struct PlannerRequest {
  /// The same model, measured at different micro-batch sizes; at least one.
  std::vector<Profile> profiles;
  Cluster cluster;
  std::string schedule = "1f1b";  ///< or kAutoSchedule (auto_schedule.h)
  int chunks = 2;                 ///< positions on each rank, where the schedule leaves that open (interleaved-1f1b)
  bool compute_only = false;
  std::optional<Algorithm> multicast = {};   ///< as in Plan
  std::optional<Algorithm> all_reduce = {};  ///< as in Plan
  /// M; open: every M that makes the global batch of one of the profiles' micro-batches is tried.
  std::optional<int> microbatches;
  std::optional<std::int64_t> global_batch;  ///< samples a step = M x micro-batch
  SearchSpace space;
  Rank data_reader = kNone;            ///< as in Plan
  CostModel cost = CostModel::sluice;  ///< a foreign one makes a single plan, with that cost's status and bound
  Method method = Method::automatic;
  Goal goal = Goal::step;  ///< compute_only implies bottleneck
  Deadline deadline = kNoDeadline;
  std::optional<std::vector<Stage>> fixed_stages;  ///< instead of a search
  std::optional<ScheduleText> schedule_text = {};  ///< of schedule kFileSchedule; its stages are the fixed ones
};

struct PlannerResult {
  Plan plan;                       ///< verified; figures, runners-up, method, status and bound filled in
  std::vector<std::string> notes;  ///< what a user should know about it, a line each
  double cost_s = 0;               ///< of the cost model asked for; ours: the bottleneck
};

/// Finds candidates, builds each, drops what does not fit memory, simulates the rest and takes the best
/// under the goal. Among the candidates are always the best joint plan and the best plan without
/// replicas, so a wider search space never gives a worse plan under the goal.
///
/// status speaks of the bottleneck: "optimal" if no plan of the search space has a smaller one, else "feasible"
/// or "timed out", with lower_bound_s. With several micro-batch sizes the choice among them is
/// by the goal (bottleneck: times M), and status speaks of the chosen one.
/// @throws Error (infeasible) naming the rank that needs too much memory in the least full plan and what would
/// relax it; or what is impossible or unsupported. Error (usage) for a global batch that no M makes.
[[nodiscard]] PlannerResult make_plan(const PlannerRequest& request);

/// Whether one plan is better than another under the goal, both of the same global batch: of plans that are as fast,
/// the one that needs less memory.
[[nodiscard]] bool is_better(const PlannerRequest& request, const PlanFigures& a, const PlanFigures& b);

}  // namespace sluice
