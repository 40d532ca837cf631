#pragma once

#include <memory>

#include "core/instruction_source.h"
#include "optimizer/schedule/build_plan.h"

namespace sluice {

struct StreamedPlan {
  Plan plan;  ///< without programs
  std::unique_ptr<InstructionSource> step;
};

/// build_plan for pipelines too deep and steps too long to be stored: the step program is made rank by rank and on
/// demand, a few numbers per rank. For 1f1b and gpipe over a line of positions with joint cuts: position k sits on
/// rank k alone and reads one tensor of the position before and one gradient from the position behind.
///
/// Where receives start follows from the linear order (optimizer/schedule/linear_order.h), which has a closed form
/// if all positions take the same time. Where they do not, receives start where they would if all took what the
/// first does: as safe, but not what build_plan makes.
/// @throws Error as build_plan; (infeasible) for what is no such line
[[nodiscard]] StreamedPlan stream_plan(PlanRequest request);

}  // namespace sluice
