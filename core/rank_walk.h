#pragma once

#include <optional>
#include <string>

#include "core/liveness.h"

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
[[nodiscard]] std::optional<Finding> walk_rank(const Plan& plan, const DataFlow& flow, const Program& program,
                                               Rank rank);

}  // namespace sluice
