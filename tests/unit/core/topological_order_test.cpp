#include "core/topological_order.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using Lists = std::vector<std::vector<int>>;

TEST(TopologicalOrder, takes_the_smallest_ready_node_first) {
  EXPECT_EQ(topological_order(Lists{{}, {0}, {0, 0}, {1}}), (std::vector<int>{2, 3, 1, 0}));
}

TEST(TopologicalOrder, leaves_out_what_lies_on_or_behind_a_cycle) {
  EXPECT_EQ(topological_order(Lists{{1}, {2}, {3, 1}, {}, {3}}), (std::vector<int>{0, 4}));
}

TEST(TopologicalOrder, reversed_gives_predecessors) {
  EXPECT_EQ(reversed(Lists{{2}, {2, 0}, {}}), (Lists{{1}, {}, {0, 1}}));
}

}  // namespace
}  // namespace sluice
