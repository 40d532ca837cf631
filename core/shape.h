#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

using Shape = std::vector<std::int64_t>;  ///< row-major extents

/// Product of the extents; 1 for a scalar's empty shape.
[[nodiscard]] inline std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace sluice
