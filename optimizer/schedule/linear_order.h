#pragma once

#include "optimizer/schedule/figure.h"

namespace sluice {

/// A number for everything in the figure, by rank and index: all different,
/// ascending along each rank, and such that, for each micro-batch,
/// - a forward follows the forward at the position before,
/// - recompute follows the last forward,
/// - a backward(-input) follows the one at the position behind, the last one the last forward,
/// - a forward whose weights are fetched follows, at all who fetch them, the last forward of the stage that they
///   fetched for before the previous one: then they have room for these,
/// - a backward-weight follows the backward-input at Position::weight_follows, or the last forward,
/// and an optimizer step follows the stage's last micro-batches at all of its owners. So every value is
/// written before it is read, and the gradients of all replicas are there before one of them updates.
///
/// Besides, nobody runs ahead: the forward of micro-batch m follows the position's backward of
/// m - 1 - backward_delay, even on other ranks; where a position has no forward, the next one's stands in for it,
/// and for a backward that of the next position that has one. The first forward waits likewise, by its own
/// position's delay, for every backward-weight, since no backward does. So no more than backward_delay + 1
/// micro-batches are between a forward and a backward, whatever the ranks' speeds; otherwise memory could grow with M.
///
/// It is the order of start times if communication took no time; ties go to the lower rank.
/// @throws Error (infeasible) if the figure's parts wait for each other in a circle.
[[nodiscard]] std::vector<std::vector<int>> linear_order(const Plan& plan, const Figure& figure);

/// Of each stage, the one that a micro-batch goes through right before it; kNone if there is none.
[[nodiscard]] std::vector<int> stages_before(const Plan& plan, const std::vector<Position>& positions);

}  // namespace sluice
