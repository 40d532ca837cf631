#pragma once

#include <vector>

#include "core/schedule.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// Stages of schedules that say themselves which ranks own which position (is_placed() of core/schedule.h).

/// Ranks of a pipeline with so many positions.
/// @throws Error (usage) if no number of ranks has them, Error (infeasible) for an odd number that is to run both ways
[[nodiscard]] int ranks_of_positions(const Schedule& schedule, int positions, int chunks);

/// Candidates for all ranks of the cluster: position k has the layers [cuts[k-1], cuts[k]) of the order.
/// From even cuts and from those of dynamic programming for as many workers as there are positions, cuts move by a
/// layer, alone or several neighbours together, while that lowers the bottleneck; a rank bears the sum of its stages.
/// For the step the fastest of all these is moved on, cut by cut, while the simulated step gets shorter. Cuts of
/// forward and backward move together, and then, where the space allows it, apart; the joint ones stay among the
/// candidates. Those with the least bottleneck come first.
/// @throws Error (infeasible) for what the placement lacks: replicas, recomputation and free owners
[[nodiscard]] std::vector<std::vector<Stage>> placed_candidates(const Problem& problem, int chunks, bool for_the_step,
                                                                Deadline deadline);

}  // namespace sluice
