#include "runtime/engine/sample_order.h"

#include <numeric>
#include <utility>

#include "core/hash.h"
#include "core/philox.h"

namespace sluice {

std::vector<std::int64_t> sample_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  const PhiloxKey key = philox_key(seed, fnv1a("sample order"));
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::int64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  for (std::int64_t i = samples - 1; i > 0; --i) {
    const PhiloxCounter words = philox({low(i), high(i), low(epoch), high(epoch)}, key);
    // 64 random bits modulo i + 1: the bias, (i + 1) / 2^64, is below notice.
    const std::uint64_t bits = std::uint64_t{words[1]} << 32 | words[0];
    const std::uint64_t j = bits % (static_cast<std::uint64_t>(i) + 1);
    std::swap(order[static_cast<std::size_t>(i)], order[j]);
  }
  return order;
}

}  // namespace sluice
