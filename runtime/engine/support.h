#pragma once

#include "core/plan.h"

namespace sluice {

/// Refuses what the executor does not do yet, before anything runs: imported
/// layers without kernels, layers that read several tensors or share one,
/// sizes that do not follow from the model, element types other than
/// float32, and plans without the programs that belong to their schedule.
/// @throws Error (bad input) naming the feature and its place.
void require_executable(const Plan& plan);

}  // namespace sluice
