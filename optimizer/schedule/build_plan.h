#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "optimizer/schedule/schedule_text.h"

namespace sluice {

struct PlanRequest {
  const Profile& profile;
  const Cluster& cluster;
  std::string schedule;                      ///< of schedules()
  int microbatches = 1;                      ///< M
  std::vector<Stage> stages;                 ///< whole backwards are halved in place where the schedule wants halves
  bool compute_only = false;                 ///< the plan's cluster gets free links
  std::optional<Algorithm> multicast = {};   ///< as in Plan
  std::optional<Algorithm> all_reduce = {};  ///< as in Plan
  Rank data_reader = kNone;                  ///< likewise
  const ScheduleText* text = nullptr;        ///< of schedule kFileSchedule: its figure
};

/// Generator and lowering: groups, transfers, and the programs "step" and
/// "evaluate". Ranks that own no stage have empty lists. What the planner knows
/// (method, status, figures, options) is left for it to fill.
/// @throws Error (infeasible) for what the schedule lacks and for owners beyond the cluster;
/// Error (bad input) for an unknown schedule and for stages with a fault (core/stage_check.h).
[[nodiscard]] Plan build_plan(PlanRequest request);

/// @throws Error (infeasible) if the schedule runs the halves of backward apart and the profile does not tell them
/// apart.
void require_split_backward(const Profile& profile, const std::string& schedule);

}  // namespace sluice
