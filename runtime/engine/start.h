#pragma once

#include <string>

#include "core/plan.h"
#include "runtime/comm/communicator.h"

namespace sluice {

/// A plan that this job can run, and the job's ranks in the plan's order.
struct PlacedPlan {
  Plan plan;
  Communicator comm;
  bool remapped = false;  ///< the plan's nodes were replaced by the job's: predict again with simulate()
};

/// Reads, verifies and places a plan. Rank 0 checks it first and all hear the
/// verdict; then each reads it. `remap` accepts a grouping by node that the plan
/// was not made for, and replaces the plan's. Collective.
/// @throws AgreedError (bad input) if the file is not a sound plan, does not
/// verify, needs what the runtime lacks, is for another number of ranks, or is
/// for another grouping by node and `remap` is false.
[[nodiscard]] PlacedPlan start_plan(Communicator& world, const std::string& path, bool remap);

}  // namespace sluice
