#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// One cell of a schedule's figure.
struct Cell {
  Instruction instruction;  ///< forward, backward or optimizer_step; stage kNone: it only paces
  int position = 0;         ///< in the pipeline, counting those where there is any work: 0..K-1
};

/// A schedule before lowering adds loads and communication: the cells of each
/// rank, in order. Where a position has no forward or no backward stage, the
/// cell stays in the figure without work. It takes no time and is not executed,
/// but what follows it keeps its place: otherwise a worker without backwards
/// would run ahead of all others, and memory would grow with M.
using Figure = std::vector<std::vector<Cell>>;

/// The "step" program of a schedule over the stages of one pipeline: position
/// follows from Stage::index, and who runs it is Stage::owners. Backward runs in
/// ascending micro-batch order, so that gradients accumulate 0..M-1.
///   sequential: the reference, all on one rank, micro-batch by micro-batch
///   gpipe: all forwards, then all backwards (Huang et al. 2019; their figure
///          runs backwards in descending order)
///   1f1b: PipeDream-Flush (Narayanan et al. 2021), DAPPLE's early backward (Fan et al. 2021)
/// @throws Error (infeasible) for sequential over several workers; Error (bad input) for an unknown name.
[[nodiscard]] Figure generate_step(const std::string& schedule, const std::vector<Stage>& stages, int ranks,
                                   int microbatches);

/// The "evaluate" program: the forwards of 1f1b, paced as if there were backwards.
[[nodiscard]] Figure generate_evaluate(const std::vector<Stage>& stages, int ranks, int microbatches);

}  // namespace sluice
