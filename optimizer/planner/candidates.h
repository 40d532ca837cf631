#pragma once

#include <vector>

#include "optimizer/planner/solve.h"

namespace sluice {

/// Stages worth building besides the ones with the least bottleneck: the best of narrower spaces (joint cuts,
/// no replicas), PipeDream's, and under memory limits the best without them (they may fit by the exact count) and the
/// least full, with every layer recomputed, too, where that is allowed. Since users wait for the step, not for the
/// bottleneck, also the best on fewer ranks and without traffic. All different.
[[nodiscard]] std::vector<std::vector<Stage>> other_candidates(const Problem& problem, bool for_the_step,
                                                               Deadline deadline);

/// Plans that take no search, for want of time: on the fastest rank alone, and on one rank a worker with even numbers
/// of layers; under `exactly` with even numbers of ranks, too, where so many replicas may be.
[[nodiscard]] std::vector<std::vector<Stage>> plans_without_search(const Problem& problem);

}  // namespace sluice
