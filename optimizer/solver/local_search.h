#pragma once

#include <vector>

#include "optimizer/solver/problem.h"
#include "optimizer/solver/work_graph.h"

namespace sluice {

/// Workers that cost strictly less, reached from the given ones by steps that each do: a layer or a rank goes from
/// the busiest worker (or one on the busiest node) to a neighbour, or two ranks change places. The given ones if no
/// step helps. Replicas stay within the space's limit and works within its cuts; workers with sets other than
/// intervals, or that recompute, keep their layers.
[[nodiscard]] std::vector<Worker> improve(const Problem& problem, std::vector<Worker> workers, Deadline deadline);

}  // namespace sluice
