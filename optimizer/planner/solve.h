#pragma once

#include "optimizer/solver/problem.h"

namespace sluice {

enum class Method : std::uint8_t { automatic, dp, ilp, exhaustive };
[[nodiscard]] const char* to_string(Method method);

struct Solved {
  Solution solution;
  Method method = Method::dp;  ///< that found the stages or closed the gap
};

/// The least bottleneck of a search space: the one place that knows which solver is good for what.
/// - automatic: dynamic programming; where it cannot prove its plan the best, enumeration if the problem is
///   small, else integer programming from that plan on, where that can express the space.
/// - dp: dynamic programming alone: over ideals where all ranks are linked alike, hierarchical where nodes share NICs.
/// - ilp: dynamic programming, then integer programming whatever was proven.
/// - exhaustive: enumeration.
/// docs/planner.md says who claims `optimal` for what.
/// @throws Error (infeasible) where the named method cannot express the space or would not end.
[[nodiscard]] Solved solve(const Problem& problem, Method method, Deadline deadline);

/// The plan whose fullest rank is least full, whatever its price: to say what does not fit.
[[nodiscard]] Solution least_full(const Problem& problem, Deadline deadline);

}  // namespace sluice
