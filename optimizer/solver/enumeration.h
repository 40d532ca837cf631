#pragma once

#include "optimizer/solver/problem.h"

namespace sluice {

/// Plans of the search space, from above: what there would be to try if nothing were pruned.
[[nodiscard]] double count_plans(const Problem& problem);

/// Of problems with more plans than this, enumeration is not tried.
inline constexpr double kMostPlans = 1e12;

/// The best plan of the whole search space, whatever its features, by bottleneck() of loads_of():
/// implicit enumeration (branch and bound) for small problems. Position by position it chooses
/// the layers of each work, their owners and what is recomputed, and drops a choice when what is certain
/// of its price (PartialPlan) exceeds a limit. The limit rises from the least bound that exceeded the last
/// one, so that the first run that finds a plan has the best.
///
/// Where backward is split (Cuts::three), a worker has
/// a stage of each kind; layers recompute where their backward(-input) is.
/// @param incumbent  a plan of the space, or none: only better ones are looked for
/// @throws Error (infeasible) naming the number of plans if there are more than kMostPlans
[[nodiscard]] Solution enumerate(const Problem& problem, Deadline deadline = kNoDeadline,
                                 const Solution& incumbent = {});

}  // namespace sluice
