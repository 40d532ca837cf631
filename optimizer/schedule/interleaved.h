#pragma once

#include <vector>

#include "optimizer/schedule/figure.h"

namespace sluice {

/// interleaved-1f1b (Narayanan et al. 2021, Megatron-LM): v positions a rank, j on rank j mod K. Micro-batches pass a
/// chunk in groups of K; rank k runs 2 (K-1-k) + (v-1) K forwards to warm up, then one forward and one backward in
/// turn, then the remaining backwards. Where M is no multiple of K, groups are larger (interleaved_group): a last group
/// of fewer than K could make ranks wait for each other in a circle.
/// @throws Error (infeasible) for stages that are not placed so
[[nodiscard]] Figure interleaved(const Plan& plan, std::vector<Position> positions);

}  // namespace sluice
