#pragma once

#include <optional>
#include <vector>

#include "core/plan.h"
#include "core/schedule.h"

namespace sluice {

/// Cuts that a user gives: positions between the workers, one less than these, not descending, 0 to L.
struct FixedCuts {
  std::optional<std::vector<int>> forward = {}, backward = {},
                                  weight = {};    ///< forward and backward stand for each other
  std::optional<std::vector<int>> replicas = {};  ///< of each worker; default one rank each
  [[nodiscard]] bool given() const { return forward || backward || weight || replicas; }
};

/// The stages of these cuts; workers take ranks 0, 1, ... in order, or positions the ranks where the schedule has them.
/// @param chunks  positions on each rank, where the schedule leaves that open
/// @throws Error (usage) for cuts that are none, Error (infeasible) for more ranks than there are and for replicas
/// where the schedule has owners of its own
[[nodiscard]] std::vector<Stage> fixed_stages(const FixedCuts& cuts, int layers, int ranks,
                                              const Schedule& schedule = schedule_named("1f1b"), int chunks = 2);

}  // namespace sluice
