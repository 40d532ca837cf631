#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace sluice {

/// Nearest rank: the smallest value that at least `share` (0 to 1) of all do not exceed; 0 of none.
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto position = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(position, 1) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

[[nodiscard]] inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace sluice
