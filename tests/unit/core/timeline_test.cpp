#include "core/timeline.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Timeline, counts_compute_alone_as_busy_and_only_ranks_that_compute) {
  Program program{.name = "step", .ranks = {}};
  program.ranks = {{{.op = Op::forward, .stage = 0, .microbatch = 0}, {.op = Op::optimizer_step, .stage = 0}},
                   {{.op = Op::multicast_wait, .transfer = 0}, {.op = Op::backward, .stage = 0, .microbatch = 0}},
                   {}};
  Timeline timeline;
  timeline.ranks.resize(3);
  timeline.ranks[0].instructions = {{0, 10}, {10, 20}};
  timeline.ranks[1].instructions = {{0, 10}, {10, 40}};
  EXPECT_EQ(makespan_ns(timeline), 40);
  EXPECT_DOUBLE_EQ(bubble_fraction(timeline, program), 1 - (10.0 + 30.0) / (2 * 40));
}

TEST(Timeline, an_empty_one_has_no_bubble) {
  EXPECT_EQ(makespan_ns({}), 0);
  EXPECT_EQ(bubble_fraction({}, {}), 0);
}

}  // namespace
}  // namespace sluice
