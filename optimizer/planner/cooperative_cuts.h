#pragma once

#include <vector>

#include "optimizer/solver/problem.h"

namespace sluice {

/// Cuts for the cooperative schedule, as bounds of cooperative_stages(), that are worth building: for all of the
/// cluster's ranks, half of them, a quarter, ..., the cuts with the least bottleneck and those with the least time of a
/// step, if traffic took none: ceil(M/K) forwards of all stages but the last, M times the slowest of recompute and
/// backward (the last stage: forward and backward), and the backwards on the way of the last gradient to the first
/// rank. Both by dynamic programming over intervals of the layers.
[[nodiscard]] std::vector<std::vector<int>> cooperative_cuts(const Problem& problem);

/// The bounds with one of the cuts moved by one layer, where that leaves no stage empty.
[[nodiscard]] std::vector<std::vector<int>> neighbours(const std::vector<int>& bounds);

/// The bounds that cooperative_stages() made the stages from.
[[nodiscard]] std::vector<int> cooperative_bounds(const std::vector<Stage>& stages);

/// The bounds of stages with joint cuts and one rank each, as users fix them.
/// @throws Error (infeasible) for any others
[[nodiscard]] std::vector<int> joint_bounds(const std::vector<Stage>& stages);

}  // namespace sluice
