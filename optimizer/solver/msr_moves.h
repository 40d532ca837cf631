#pragma once

#include "optimizer/solver/problem.h"

namespace sluice {

/// Drops co-location: moves runs of forward or of backward layers from device to device for as long as the larger
/// load of the two falls. Forward layers keep the pipeline's order; backward layers may also go to ranks that
/// the pipeline does not use.
/// @param solution  stages with one owner each; its lower bound becomes that of any partition
void improve_msr(const Profile& profile, const Cluster& cluster, Deadline deadline, Solution& solution);

}  // namespace sluice
