#pragma once

#include "optimizer/schedule/generators.h"

namespace sluice {

/// A number for every cell of the figure, by rank and index: all different,
/// ascending along each rank, and such that forward follows the forward one
/// position before, backward the backward one position behind (the last
/// position's: its forward). So every value is written before it is read. It is
/// the order of start times if communication took no time; ties go to the lower rank.
/// @throws Error (infeasible) if the cells wait for each other in a circle.
[[nodiscard]] std::vector<std::vector<int>> linear_order(const Plan& plan, const Figure& figure);

}  // namespace sluice
