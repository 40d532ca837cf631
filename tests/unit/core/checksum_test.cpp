#include "core/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

std::uint64_t checksum_of(std::string_view text) {
  return checksum(reinterpret_cast<const std::byte*>(text.data()), std::ssize(text));
}

// Values of the reference implementation, libxxhash 0.8.1.
TEST(Checksum, is_xxh64) {
  EXPECT_EQ(checksum_of(""), 0xef46db3751d8e999);
  EXPECT_EQ(checksum_of("a"), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(checksum_of("abc"), 0x44bc2cf5ad770999);
  EXPECT_EQ(checksum_of("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1);
  EXPECT_EQ(checksum_of(std::string(100, '0') + "123456789"), 0x84c2791b917196a0);
}

TEST(Checksum, finds_every_single_bit_that_is_flipped) {
  std::mt19937 random(11);
  for (const std::size_t bytes : {1, 3, 4, 7, 8, 12, 31, 32, 33, 63, 64, 100}) {
    std::vector<std::byte> data(bytes);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    const std::uint64_t before = checksum(data.data(), std::ssize(data));
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
      data[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_NE(checksum(data.data(), std::ssize(data)), before) << "bit " << bit << " of " << bytes << " bytes";
      data[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(Checksum, finds_signs_that_are_flipped_in_pairs) {
  std::vector<std::byte> data(256);
  const std::uint64_t before = checksum(data.data(), std::ssize(data));
  for (std::size_t second = 15; second < data.size(); second += 8) {
    std::vector<std::byte> flipped = data;
    flipped[7] ^= std::byte{0x80};
    flipped[second] ^= std::byte{0x80};
    EXPECT_NE(checksum(flipped.data(), std::ssize(flipped)), before) << second;
  }
}

}  // namespace
}  // namespace sluice
