#pragma once

#include "optimizer/solver/problem.h"

namespace sluice {

/// Drops co-location: improves a solution for MSR's objective until nothing helps. Forward layers stay a pipeline.
/// Without backward layers this is the search over ideals, exact as far as that is. Otherwise two steps take turns:
/// moves between devices (msr_moves.h), and the search over pairs of prefixes of two orders, those of the forward and
/// of the backward layers on the devices of the last solution.
/// @param solution  with its price; its lower bound becomes that of the wider space
void drop_colocation(const Profile& profile, const Cluster& cluster, Deadline deadline, Solution& solution);

}  // namespace sluice
