#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// XXH64 (Collet, xxHash specification 0.2), seed 0: finds every change within one 8-byte word, and others but for
/// 2^-64. Not against forgery. At the speed of memory (docs/communication.md).
[[nodiscard]] std::uint64_t checksum(const std::byte* data, std::int64_t bytes);

}  // namespace sluice
