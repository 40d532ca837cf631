#pragma once

#include <vector>

#include "core/plan.h"

namespace sluice {

/// Layers [begin, end) of the order.
[[nodiscard]] std::vector<LayerId> interval(int begin, int end);

/// Appends stages of one work: position k has the layers [bounds[k], bounds[k + 1]) and these owners; no stage where
/// there are none.
/// @param bounds  0, the cuts, the number of layers: one more than `owners`
void append_intervals(std::vector<Stage>& stages, Work work, const std::vector<int>& bounds,
                      const std::vector<std::vector<Rank>>& owners);

}  // namespace sluice
