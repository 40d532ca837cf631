#pragma once

#include "core/command/options.h"

namespace sluice {

/// What optimize was asked for at once and cannot do together: options that steer a search beside fixed cuts, which
/// leave nothing to search, or beside another planner's cost, which has a search space of its own.
/// @throws Error (usage) naming both
void refuse_conflicts(const boost::program_options::variables_map& values);

}  // namespace sluice
