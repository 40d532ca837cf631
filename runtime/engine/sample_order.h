#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// The samples of one training epoch in the order in which they are used: a
/// Fisher-Yates shuffle (Durstenfeld 1964) of 0..samples-1. Random numbers are
/// Philox with `seed` and the hash of "sample order" as key and (position,
/// position >> 32, epoch, epoch >> 32) as counter, so that every rank makes the same order by itself.
[[nodiscard]] std::vector<std::int64_t> sample_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch);

}  // namespace sluice
