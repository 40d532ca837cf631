#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/plan.h"
#include "optimizer/schedule/figure.h"

namespace sluice {

/// A schedule as people write it: one line a rank, what it computes and updates in order, as in
///   rank 0 | 0F0 0F1 0B0 0B1 U0      # position 0: forward and backward of micro-batches 0 and 1, update
/// I and W are the halves of a backward, R recomputes. What follows # is for people. Lowering inserts loads and
/// communication.
struct ScheduleText {
  struct Cell {
    Op op = Op::forward;
    int position = 0;
    int microbatch = kNone;  ///< kNone: an update
    bool operator==(const Cell&) const = default;
  };
  std::string source;    ///< for messages: the file
  int positions = 0;     ///< one more than the last that a cell names
  int microbatches = 0;  ///< likewise
  std::vector<std::vector<Cell>> ranks;
};

/// The computes and updates of a plan's programs that train. Asynchronous ones, each under its name, are for reading.
[[nodiscard]] std::string schedule_text(const Plan& plan);

/// @throws Error (bad input) naming source, rank and cell for what is no schedule; Error (infeasible) for an
/// asynchronous one
[[nodiscard]] ScheduleText read_schedule_text(std::istream& lines, const std::string& source);

/// The stages with the owners that follow from the cells: who has 2F0 owns forward of position 2. Where the text has
/// halves of a backward, or recomputes, they have the layers of the backward.
/// @param layers  stages of forward, backward (or its halves); their owners are not looked at
/// @throws Error (bad input) naming source, rank and cell for cells that are missing, double, descending, or without
/// layers, and for replicas that do not take turns
[[nodiscard]] std::vector<Stage> stages_of(const ScheduleText& schedule, const std::vector<Stage>& layers);

/// The figure that the text draws of the plan's stages, which stages_of() made.
/// @throws Error (bad input) naming source, rank and cell if ranks wait for each other for ever, a recompute does not
/// stand right before its backward, or the updates of a rank's stages do not end its line in ascending order
[[nodiscard]] Figure figure_of(const ScheduleText& schedule, const Plan& plan);

}  // namespace sluice
