#include "core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

TEST(Philox, gives_the_known_answers_of_random123) {
  // kat_vectors of Random123 1.14, philox4x32 with 10 rounds.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, keys_differ_by_seed_and_by_name) {
  std::set<PhiloxKey> keys;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (std::uint64_t name = 0; name < 20; ++name) keys.insert(philox_key(seed, name));
  EXPECT_EQ(keys.size(), 400U);
}

TEST(Philox, uniform_numbers_stay_below_one) {
  EXPECT_EQ(uniform01(0), 0.0F);
  EXPECT_LT(uniform01(0xffffffff), 1.0F);
  EXPECT_EQ(uniform01(0x80000000), 0.5F);
}

}  // namespace
}  // namespace sluice
