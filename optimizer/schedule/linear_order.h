#pragma once

#include "core/liveness.h"
#include "optimizer/schedule/generators.h"

namespace sluice {

/// A position for every instruction of the lists, by rank and index: all
/// different, ascending along each rank, and every value is written before it is
/// read. It is the order of start times if communication took no time; ties go
/// to the lower rank.
/// @throws Error (infeasible) if the lists wait for each other in a circle.
[[nodiscard]] std::vector<std::vector<int>> linear_order(const Plan& plan, const DataFlow& flow,
                                                         const ComputeLists& lists);

}  // namespace sluice
