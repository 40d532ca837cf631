#pragma once

#include <functional>

#include "random_problem.h"

namespace sluice::testing {

/// Tries every plan of the search space, prices each by bottleneck() of loads_of() and prunes nothing:
/// slow and plain, for solvers to be compared with. A plan is, for W = 1, 2, ... workers, a
/// position 0..W-1 for each (layer, work) such that no layer comes before one that it reads (nor, without
/// space.ideals, before its predecessor in the order), the ranks of each worker in the order of replicas, which worker
/// has the backward of which position, and which layers recompute where their backward is.
[[nodiscard]] Solution brute_force(const Problem& problem);

/// How many plans brute_force would look at; some of them leave a worker without work.
[[nodiscard]] double brute_force_plans(const Problem& problem);

/// A random problem of at most 6 layers and 4 ranks, with as many layers as brute_force can try in so many plans.
/// @param adjust  changes what was drawn, before it is measured
[[nodiscard]] OwnedProblem random_problem(
    unsigned seed, double most_plans, const std::function<void(OwnedProblem&)>& adjust = [](OwnedProblem&) {});

}  // namespace sluice::testing
