#include "runtime/comm/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace sluice {
namespace {

std::vector<Rank> match(const std::vector<int>& planned, const std::vector<int>& actual) {
  return match_placement(planned, actual);
}

TEST(MatchPlacement, keeps_the_order_of_equal_groupings) {
  EXPECT_EQ(match({0, 0, 1, 1}, {0, 0, 1, 1}), (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(match({7, 7, 3, 3}, {0, 0, 1, 1}), (std::vector<Rank>{0, 1, 2, 3}));
}

TEST(MatchPlacement, turns_a_cyclic_placement_into_the_planned_blocks) {
  EXPECT_EQ(match({0, 0, 1, 1}, {0, 1, 0, 1}), (std::vector<Rank>{0, 2, 1, 3}));
}

TEST(MatchPlacement, matches_uneven_nodes_by_their_size) {
  EXPECT_EQ(match({0, 1, 1, 1}, {0, 0, 0, 1}), (std::vector<Rank>{3, 0, 1, 2}));
}

TEST(MatchPlacement, finds_none_when_sizes_differ) {
  EXPECT_TRUE(match({0, 0, 1, 1}, {0, 0, 0, 1}).empty());
  EXPECT_TRUE(match({0, 0, 1, 1}, {0, 0, 0, 0}).empty());
  EXPECT_TRUE(match({0, 0, 1}, {0, 0, 1, 1}).empty());
}

TEST(MatchPlacement, reproduces_the_grouping_of_any_renumbered_shuffle) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<int> planned(1 + random() % 12);
    for (int& node : planned) node = static_cast<int>(random() % 4);
    std::vector<int> actual = planned;
    std::shuffle(actual.begin(), actual.end(), random);
    for (int& node : actual) node = 3 - node;

    const std::vector<Rank> order = match_placement(planned, actual);
    ASSERT_EQ(order.size(), planned.size());
    std::vector<Rank> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<Rank> all(planned.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    for (std::size_t a = 0; a < order.size(); ++a)
      for (std::size_t b = 0; b < order.size(); ++b)
        EXPECT_EQ(planned[a] == planned[b],
                  actual[static_cast<std::size_t>(order[a])] == actual[static_cast<std::size_t>(order[b])]);
  }
}

}  // namespace
}  // namespace sluice
