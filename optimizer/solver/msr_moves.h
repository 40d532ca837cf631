#pragma once

#include <vector>

#include "optimizer/solver/msr_graph.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// Moves runs of forward or of backward units from device to device for as long as the larger load of the two
/// falls. Forward units keep the pipeline's order; backward units may also go to ranks that the pipeline does
/// not use.
/// @param graph   without co-location
/// @param stages  of one owner each, in pipeline order
[[nodiscard]] std::vector<Stage> moved(const Profile& profile, const Cluster& cluster, const MsrGraph& graph,
                                       const std::vector<Stage>& stages, Deadline deadline);

}  // namespace sluice
