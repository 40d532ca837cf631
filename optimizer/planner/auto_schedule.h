#pragma once

#include <string_view>

#include "optimizer/planner/planner.h"

namespace sluice {

/// Instead of a schedule's name: whichever is best.
inline constexpr std::string_view kAutoSchedule = "auto";

/// make_plan under every synchronous schedule, each with its share of the time; the best under the goal, and of equal
/// ones the one that needs least memory. Notes say what the others would have taken, or why they cannot be; their
/// figures are among the runners-up. Asynchronous schedules train differently: only who names one gets it.
/// @throws Error (infeasible) with every schedule's reason if none is possible
[[nodiscard]] PlannerResult choose_schedule(const PlannerRequest& request);

}  // namespace sluice
