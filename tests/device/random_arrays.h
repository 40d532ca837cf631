#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice {

/// Uniform in [-1, 1).
[[nodiscard]] inline std::vector<float> random_array(std::int64_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

/// Values of both signs, all at least 0.02 apart and 0.01 from zero: small steps cross no kink.
[[nodiscard]] inline std::vector<float> spaced_array(std::int64_t count, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = 0.02F * static_cast<float>(i - count / 2) + 0.01F;
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

}  // namespace sluice
