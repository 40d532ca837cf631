#pragma once

#include <nlohmann/json.hpp>

#include "core/plan.h"

namespace sluice {

using Json = nlohmann::ordered_json;

/// All figures by their names.
[[nodiscard]] Json to_json(const PlanFigures& figures);

}  // namespace sluice
