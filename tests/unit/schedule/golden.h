#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// Rows of tests/data/schedules/NAME_SIZE.txt, "rank 0 | F0 F1 . B0 B0", one column per time unit.
[[nodiscard]] std::vector<std::string> golden_rows(const std::string& name, const std::string& size = "4x8");

/// The plan's simulated compute in the same way, one cell per nanosecond: "F3", or "4F3" with its position where
/// ranks have several, or "F3v1" with the version under asynchronous schedules.
[[nodiscard]] std::vector<std::string> drawn(const Plan& plan);
[[nodiscard]] std::vector<std::string> drawn(const Plan& plan, const Program& program);

}  // namespace sluice
