#pragma once

#include <vector>

#include "optimizer/schedule/figure.h"

namespace sluice {

/// sequential, gpipe, 1f1b and zb-h1. All that is done has its place in one order of slots: in slot s run the forwards
/// of micro-batch s, by ascending position; then the backwards (recompute right before) of micro-batch s -
/// backward_delay, descending; then the backward-weights of s - weight_delay. A rank runs what it owns, in this order;
/// so nobody waits in a circle, whoever owns what. The delays are all that tells the schedules apart:
///   sequential: one position, micro-batch by micro-batch: the reference
///   gpipe: all forwards, then all backwards (Huang et al. 2019; their figure runs backwards in descending order)
///   1f1b: PipeDream-Flush (Narayanan et al. 2021), DAPPLE's early backward (Fan et al. 2021): as many in flight as
///         there are ranks from the position on
///   zb-h1: the same, but backward-weights so late that every position has as many micro-batches in work as the first:
///          they run where 1f1b idles at the end, and backward-inputs no longer wait for them (Qi, Wan, Huang, Lin
///          2024)
[[nodiscard]] Figure slot_order(const Plan& plan, std::vector<Position> positions);

/// slot_order of a single position.
/// @throws Error (infeasible) if there are more
[[nodiscard]] Figure sequential(const Plan& plan, std::vector<Position> positions);

/// Forwards alone, whoever owns what: position k runs micro-batch w - k in wave w.
[[nodiscard]] Figure waves_of_forwards(const Plan& plan, std::vector<Position> positions);

}  // namespace sluice
