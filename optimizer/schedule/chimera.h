#pragma once

#include <vector>

#include "optimizer/schedule/figure.h"

namespace sluice {

/// chimera (Li, Hoefler 2021): two pipelines in opposite directions over the same K ranks, K even. Position k has two
/// replicas, on rank k and on rank K-1-k; the first runs the even micro-batches, down the ranks, the second the odd
/// ones, up. A unit of K micro-batches fills 2 K slots of each rank without conflict; more are units one after the
/// other (the paper's direct concatenation), fewer leave slots empty.
/// @throws Error (infeasible) for odd K and for stages that are not placed so
[[nodiscard]] Figure chimera(const Plan& plan, std::vector<Position> positions);

}  // namespace sluice
