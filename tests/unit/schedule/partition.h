#pragma once

#include <string_view>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// Cuts of L layers for K workers: worker k runs forward
/// [forward_bounds[k], forward_bounds[k+1]) and backward
/// [backward_bounds[k], backward_bounds[k+1]). K+1 ascending bounds each, from 0
/// to L; empty intervals are allowed. Worker k sits on rank k.
struct Partition {
  std::vector<int> forward_bounds;
  std::vector<int> backward_bounds;

  [[nodiscard]] int workers() const { return static_cast<int>(forward_bounds.size()) - 1; }
  bool operator==(const Partition&) const = default;
};

/// One stage for each interval that is not empty, forwards first.
/// @throws Error (bad input) if the bounds do not ascend from 0 to the same L, or differ in number
[[nodiscard]] std::vector<Stage> stages_of(const Partition& partition);

/// Likewise, with as many intervals as the schedule has positions on `ranks` ranks, owned by whom it places there.
[[nodiscard]] std::vector<Stage> stages_of(const Partition& partition, std::string_view schedule, int ranks);

}  // namespace sluice
