#pragma once

#include <string>

#include "core/plan.h"

namespace sluice {

/// What is wrong with a plan's stages, in one sentence; empty if nothing is. Checked are:
/// - every layer is in one forward stage, and in one backward stage or, throughout the plan, in one
///   backward_input and one backward_weight stage (which the profile must tell apart);
/// - no two stages share work and index, the owners of a stage differ, forward stages alone fetch weights, and of
/// layers
///   that nobody but the owners of their update runs in other works;
/// - by ascending index forward stages follow the DAG, backward(-input) stages run against it;
/// - a recompute stage has the owners of the backward(-input) stage with its index.
/// @param plan  profile and stages, indices and ranges checked
[[nodiscard]] std::string stage_fault(const Plan& plan);

}  // namespace sluice
