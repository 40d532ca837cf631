#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// Rows of tests/data/schedules/NAME_4x8.txt, "rank 0 | F0 F1 . B0 B0", one column per time unit.
[[nodiscard]] std::vector<std::string> golden_rows(const std::string& name);

/// The plan's simulated compute in the same way, one cell per nanosecond: "F3", or "4F3" with its position where
/// ranks have several.
[[nodiscard]] std::vector<std::string> drawn(const Plan& plan);

}  // namespace sluice
