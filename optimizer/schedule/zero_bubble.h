#pragma once

#include <vector>

#include "optimizer/schedule/figure.h"

namespace sluice {

/// ZB-V (Qi, Wan, Huang, Lin 2024, Zero Bubble Pipeline Parallelism, section 6; the V family of their Pipeline
/// Parallelism with Controllable Memory): 2 K positions down the ranks and up again, so that the rank that ends a
/// forward begins the backward. Warm-up until 2 K micro-batches of half a rank's layers are in work on every rank, as
/// much as 1f1b keeps on its first; then forward, backward-input and backward-weight of either position in turn; at the
/// end backward-inputs first. With M >= 2 K - 1 and equal times no rank idles between its first instruction and its
/// last. The order is that of 2 K - 1 micro-batches or more; fewer are those of them that there are.
/// @throws Error (infeasible) for stages that are not placed so, and where a backward-weight needs gradients of an
/// earlier position
[[nodiscard]] Figure zb_v(const Plan& plan, std::vector<Position> positions);

}  // namespace sluice
