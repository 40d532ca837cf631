#pragma once

#include <vector>

#include "core/plan.h"
#include "optimizer/schedule/positions.h"

namespace sluice {

/// A schedule before lowering adds loads and communication: what each rank
/// computes and updates, in order.
struct Figure {
  std::vector<Position> positions;
  std::vector<std::vector<Instruction>> ranks;
};

/// The "step" program of the plan's schedule over the stages of one pipeline:
/// position follows from Stage::index, and who runs a micro-batch is owner().
///
/// All that is done has its place in one order of slots. In slot s run the
/// forwards of micro-batch s, by ascending position; then the backwards
/// (recompute right before) of micro-batch s - backward_delay, descending; then
/// the backward-weights of s - weight_delay. A rank runs what it owns, in this
/// order; so nobody waits in a circle. The delays are all that tells the
/// schedules apart:
///   sequential: one position, micro-batch by micro-batch: the reference
///   gpipe: all forwards, then all backwards (Huang et al. 2019; their figure
///          runs backwards in descending order)
///   1f1b: PipeDream-Flush (Narayanan et al. 2021), DAPPLE's early backward (Fan
///         et al. 2021): as many in flight as there are ranks from the position on
/// Backward runs in ascending micro-batch order, so that gradients accumulate 0..M-1.
/// @param plan  stages without fault, profile, cluster, schedule and microbatches are set
/// @throws Error (infeasible) for sequential over several positions; Error (bad input) for an unknown name.
[[nodiscard]] Figure generate_step(const Plan& plan);

/// The "evaluate" program: the forwards.
[[nodiscard]] Figure generate_evaluate(const Plan& plan);

}  // namespace sluice
