#pragma once

#include <vector>

#include "core/plan.h"

namespace sluice {

/// A stretch of an asynchronous schedule that repeats without end, M micro-batches at a time: in slot s run the
/// forwards of micro-batch s by ascending position, then, descending, the backwards of s - d_k and the updates that are
/// due. So a rank runs forward and backward in turn, as in PipeDream's steady state (Narayanan et al. 2019), and
/// PipeDream-2BW differs in nothing but when it updates and which versions it uses (Narayanan et al. 2021).
/// This order of slots is also the figure's linear order: it has all that linear_order.h asks for, and repeats exactly.
struct EndlessFigure {
  std::vector<std::vector<Instruction>> ranks;
  std::vector<std::vector<int>> order;    ///< by rank and index
  std::vector<std::vector<int>> periods;  ///< by rank: where it begins with the n-th run of steady
  int base = 0;                           ///< micro-batches before the fill's first
};

/// @param plan  stages without fault, profile, cluster, schedule and microbatches are set
/// @throws Error (infeasible) for what asynchronous schedules lack: replicas, halves of backward, recomputation, stages
/// whose positions are not one to a rank, and fewer micro-batches than positions under pipedream-2bw.
[[nodiscard]] EndlessFigure generate_asynchronous(const Plan& plan);

/// Appends the programs fill, steady and drain, cut from one lowered stretch where the ranks begin a period. What the
/// stretch holds of micro-batches before the fill's first is left out of the fill, what it holds of later ones than a
/// run has out of the drain.
/// @throws Error (runtime fault) if two runs of steady differ
void lower_asynchronous(Plan& plan);

}  // namespace sluice
