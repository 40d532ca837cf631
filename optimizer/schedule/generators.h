#pragma once

#include "optimizer/schedule/figure.h"

namespace sluice {

/// The "step" program of the plan's schedule over the stages of one pipeline: position follows from Stage::index, and
/// who runs a micro-batch is owner(). A family of schedules has a file of its own, and a row in generators.cpp's table.
/// Backward runs in ascending micro-batch order, so that gradients accumulate 0..M-1.
/// @param plan  stages without fault, profile, cluster, schedule and microbatches are set
/// @throws Error (infeasible) for what the schedule lacks; Error (bad input) for an unknown name.
[[nodiscard]] Figure generate_step(const Plan& plan);

/// The "evaluate" program: the forwards.
[[nodiscard]] Figure generate_evaluate(const Plan& plan);

}  // namespace sluice
