#include "core/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace sluice {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9,
                        kPrime4 = 0x85EBCA77C2B2AE63, kPrime5 = 0x27D4EB2F165667C5;
constexpr std::int64_t kStripe = 32;

template <typename Word>
std::uint64_t read(const std::byte* data) {
  Word word;
  std::memcpy(&word, data, sizeof word);
  if constexpr (std::endian::native == std::endian::big) static_assert(sizeof(Word) == 0, "words are little-endian");
  return word;
}

std::uint64_t round(std::uint64_t sum, std::uint64_t word) { return std::rotl(sum + word * kPrime2, 31) * kPrime1; }

/// Of whole stripes: four sums that do not wait for each other.
std::uint64_t sum_of_stripes(const std::byte* data, const std::byte* end) {
  std::array<std::uint64_t, 4> sums{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  for (; data < end; data += kStripe)
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] = round(sums[lane], read<std::uint64_t>(data + 8 * lane));
  std::uint64_t sum = std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
  for (const std::uint64_t lane : sums) sum = (sum ^ round(0, lane)) * kPrime1 + kPrime4;
  return sum;
}

}  // namespace

std::uint64_t checksum(const std::byte* data, std::int64_t bytes) {
  const std::byte* const end = data + bytes;
  const std::byte* const last_stripe = data + bytes / kStripe * kStripe;
  std::uint64_t sum = bytes < kStripe ? kPrime5 : sum_of_stripes(data, last_stripe);
  sum += static_cast<std::uint64_t>(bytes);
  const std::byte* rest = last_stripe;
  for (; end - rest >= 8; rest += 8) sum = std::rotl(sum ^ round(0, read<std::uint64_t>(rest)), 27) * kPrime1 + kPrime4;
  for (; end - rest >= 4; rest += 4)
    sum = std::rotl(sum ^ (read<std::uint32_t>(rest) * kPrime1), 23) * kPrime2 + kPrime3;
  for (; rest < end; ++rest) sum = std::rotl(sum ^ (read<std::uint8_t>(rest) * kPrime5), 11) * kPrime1;
  sum = (sum ^ (sum >> 33)) * kPrime2;
  sum = (sum ^ (sum >> 29)) * kPrime3;
  return sum ^ (sum >> 32);
}

}  // namespace sluice
