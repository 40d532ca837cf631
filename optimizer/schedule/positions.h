#pragma once

#include <vector>

#include "core/plan.h"

namespace sluice {

/// What one position of the pipeline does in a program, and when. Stages are indices into Plan::stages, kNone
/// where there is none; delays count micro-batches.
struct Position {
  int forward = kNone;
  int recompute = kNone;
  int backward = kNone;  ///< or backward_input
  int backward_weight = kNone;
  int weight_follows = kNone;    ///< the lowest position whose backward_input makes what backward_weight reads
  int backward_delay = kNone;    ///< forwards of later micro-batches before the backward of one; kNone: as written
  int weight_delay = kNone;      ///< likewise before its backward_weight
  bool ordered_by_rank = false;  ///< the order of each rank's list alone keeps the delays (placed schedules)
};

/// Ranks of the pipeline, for schedules that prescribe which rank owns which position: the fewest by which all of
/// the plan's stages are where the placement puts them.
/// @throws Error (infeasible) if there is no such number.
[[nodiscard]] int pipeline_ranks(const Plan& plan);

/// Positions of the step by ascending Stage::index. Schedules placed in a line skip those without stages and have
/// delays: the backward's is one less than microbatches_in_flight() under the plan's schedule. A backward-weight
/// has the delay of the position that it follows, or of its own if that is larger:
/// it reads the gradients of all stages that consume what its layers made, and
/// what is recomputed on a rank that they share; a schedule that delays weights gives all of them the first position's.
/// Under all others position k is the one with index k, up to the last that the placement has, and delays are open
/// (FigureWriter::take). Cooperative positions are those with stages, their delays open.
[[nodiscard]] std::vector<Position> step_positions(const Plan& plan);

/// The same positions with their forwards alone, and the delays of 1f1b over them.
[[nodiscard]] std::vector<Position> evaluate_positions(const Plan& plan);

}  // namespace sluice
