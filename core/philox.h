#pragma once

#include <array>
#include <cstdint>

namespace sluice {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): a counter-based generator.
/// The same (key, counter) gives the same four words on any rank, thread or device.
using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;
[[nodiscard]] PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// The stream of one layer (or other named user) in one run.
[[nodiscard]] PhiloxKey philox_key(std::uint64_t seed, std::uint64_t name_hash);

/// Uniform in [0, 1) with 24 random bits, exact in float32.
[[nodiscard]] inline float uniform01(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

}  // namespace sluice
