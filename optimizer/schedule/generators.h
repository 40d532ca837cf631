#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// Forward, backward and optimizer_step of each rank, in order: a schedule
/// before lowering adds loads and communication.
using ComputeLists = std::vector<std::vector<Instruction>>;

/// The "step" program of a schedule over the stages of one pipeline: position k
/// is Stage::index, and who runs it is Stage::owners; a position without forward
/// or backward stage simply skips that work. Backward runs in ascending
/// micro-batch order, so that gradients accumulate 0..M-1.
///   sequential: the reference, all on one rank, micro-batch by micro-batch
///   gpipe: all forwards, then all backwards (Huang et al. 2019; their figure
///          runs backwards in descending order)
///   1f1b: PipeDream-Flush (Narayanan et al. 2021), DAPPLE's early backward (Fan et al. 2021)
/// @throws Error (infeasible) for sequential over several workers; Error (bad input) for an unknown name.
[[nodiscard]] ComputeLists generate_step(const std::string& schedule, const std::vector<Stage>& stages, int ranks,
                                         int microbatches);

/// The "evaluate" program: forwards only.
[[nodiscard]] ComputeLists generate_evaluate(const std::vector<Stage>& stages, int ranks, int microbatches);

}  // namespace sluice
