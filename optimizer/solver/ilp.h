#pragma once

#include <vector>

#include "optimizer/solver/problem.h"

namespace sluice {

/// The least bottleneck() over the search space by integer programming (COIN-OR CBC), for all that dynamic
/// programming cannot express: NICs that ranks share, ranks of unequal speed and memory, recomputation, backwards
/// dealt to workers in any order; joint, independent and three cuts, intervals and
/// ideals, memory. Workers have one rank each.
///
/// The program's time is the bottleneck itself, so its optimum is the plan's; every plan found is priced again by
/// loads_of(), and where that says more than the program, the plan is forbidden and the search goes on.
/// CBC counts in floating point: plans less than 1e-6 better than the best (relatively) count as no better, and
/// `lower_bound` is meant within that.
///
/// @param seed         stages of the space to start from; only better ones are searched. May be empty
/// @param lower_bound  a bound known already [s]
/// @param deadline     kept within some 0.1 s whatever CBC does; then timed_out, with the best and the bound so far
/// @throws Error (infeasible) if workers may have replicas
[[nodiscard]] Solution solve_ilp(const Problem& problem, const std::vector<Stage>& seed = {}, double lower_bound = 0,
                                 Deadline deadline = kNoDeadline);

}  // namespace sluice
