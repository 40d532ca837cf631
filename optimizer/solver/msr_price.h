#pragma once

#include <vector>

#include "optimizer/solver/problem.h"

/// The objective of Tarnawski et al. (2020), "Efficient algorithms for device placement of DNN graph operators":
/// the largest load of a device, in pipelined inference or training the time per sample. A load is the sum of the
/// layers' times on that device and, on accelerators, of the transfers of all tensors that leave or enter it, each
/// once; host CPUs do not pay for transfers. Nothing overlaps. A plan is a partition of the layers, forward and
/// backward alike (Work::forward of Layer::backward layers), whose forward parts form a pipeline.
namespace sluice {

/// By rank [s]; infinite where memory is exceeded, or an accelerator has a layer that it cannot run.
/// @param stages  of forward works, one owner each
[[nodiscard]] std::vector<double> msr_loads(const Profile& profile, const Cluster& cluster,
                                            const std::vector<Stage>& stages);

/// The largest load; infinite without stages.
[[nodiscard]] double msr_price(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages);

/// The least largest load.
/// Cuts::joint: layers of a co-location class share a device. Exact, and is_optimal() says so, unless time is up or the
/// graph has too many ideals. Otherwise every layer may go where it likes as long as the forward layers of the
/// devices form a pipeline: exact for graphs without backward layers, else improved from the joint optimum
/// (msr_apart.h). Never dearer than joint. The rest of the search space and the schedule play no role.
/// @throws Error (infeasible) for profiles with backward times instead of backward layers or of more than 20,000
///         layers, host CPUs without times, and too many kinds of ranks
[[nodiscard]] Solution solve_msr(const Problem& problem, Deadline deadline);

}  // namespace sluice
