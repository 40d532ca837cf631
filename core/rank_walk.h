#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/liveness.h"
#include "core/weight_ring.h"

namespace sluice {

/// Where on a rank, and why, a program is refused.
struct Finding {
  Rank rank = 0;
  int instruction = 0;  ///< the length of the list: at its end
  std::string reason;
};

/// The part of verify() that a rank's own list decides: its work is complete and
/// in order, values are there when they are used and written once, starts and
/// waits pair up, gradients are summed over replicas before the update, weights are replaced after their last
/// use. What other ranks do can only delay it.
/// @param flow  of `plan`, whose tables have been checked
/// @param microbatches  that the program runs
[[nodiscard]] std::optional<Finding> walk_rank(const Plan& plan, const DataFlow& flow, const Program& program,
                                               int microbatches, Rank rank);

/// What decides about the rest of an asynchronous program, after fill and some runs of steady.
struct RankState {
  std::vector<int> microbatches_done;  ///< by stage
  std::map<ValueUse, bool> value_is_whole;
  std::set<std::pair<int, int>> started, open;  ///< transfer, micro-batch
  WeightRing::State weights;
  bool operator==(const RankState&) const = default;
};

/// With micro-batches and versions counted from the base of the steady program that comes next. What is older than
/// any steady program or the drain names is left out.
/// @param steadies  that `program`, in which walk_rank() finds no fault, runs after the fill
[[nodiscard]] RankState state_after(const Plan& plan, const DataFlow& flow, const Program& program, int steadies,
                                    Rank rank);

}  // namespace sluice
