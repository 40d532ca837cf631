#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/text.h"

namespace sluice {

using Shape = std::vector<std::int64_t>;  ///< row-major extents

/// Product of two numbers that are not negative; 2^63 - 1 stands for all that is larger.
/// Extents come from files and options: whoever limits a size must see that it is too large.
[[nodiscard]] inline std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}

/// Product of the extents, saturating; 1 for a scalar's empty shape.
[[nodiscard]] inline std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = saturating_product(count, extent);
  return count;
}

/// For people: "8x1x5x5"
[[nodiscard]] inline std::string shape_text(const Shape& shape) {
  std::string joined;
  for (const std::int64_t extent : shape) joined += text(joined.empty() ? "" : "x", extent);
  return joined;
}

}  // namespace sluice
