#include "core/plan.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/unit/core/small_models.h"

namespace sluice {
namespace {

using small_models::bad_input_message;
using small_models::plan_of_three;

TEST(Plan, a_small_plan_is_valid) { EXPECT_NO_THROW(validate(plan_of_three())); }

TEST(Plan, refuses_indices_out_of_range_and_names_the_place) {
  const auto message_with = [](const std::function<void(Plan&)>& change) {
    Plan plan = plan_of_three();
    change(plan);
    return bad_input_message([&] { validate(plan); });
  };
  EXPECT_EQ(message_with([](Plan& p) { p.programs[0].ranks[0][1].stage = 3; }),
            "program step, rank 0, instruction 1: stage is 3, expected 0 to 2");
  EXPECT_EQ(message_with([](Plan& p) { p.programs[0].ranks[0][1].microbatch = 2; }),
            "program step, rank 0, instruction 1: micro-batch is 2, expected 0 to 1");
  EXPECT_NE(message_with([](Plan& p) { p.programs[0].ranks[0][0].microbatch = kNone; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.programs[0].ranks[0][2].transfer = kNone; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.programs[0].ranks[0][2].microbatch = kNone; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.programs[0].ranks.pop_back(); }), "");
  EXPECT_NE(message_with([](Plan& p) { p.microbatches = 0; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.stages[0].layers = {}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.stages[0].layers = {1, 0}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.stages[0].layers = {3}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.stages[0].owners = {}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.stages[0].owners = {2}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.groups[0].members = {1}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.groups[0].members = {1, 0}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.groups[0].members = {0, 5}; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.transfers[0].group = 1; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.transfers[0].tensor = 6; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.transfers[0].bytes = -1; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.transfers[1].layer = kNone; }), "");
  EXPECT_NE(message_with([](Plan& p) { p.transfers[0].payload = Payload::gradient; }), "") << "no stage";
}

TEST(Plan, replicas_take_turns) {
  const Stage stage{.work = Work::forward, .index = 0, .layers = {0}, .owners = {3, 1}};
  EXPECT_EQ(owner(stage, 0), 3);
  EXPECT_EQ(owner(stage, 1), 1);
  EXPECT_EQ(owner(stage, 2), 3);
}

TEST(Plan, finds_a_program_by_name) {
  const Plan plan = plan_of_three();
  EXPECT_EQ(&program(plan, "step"), &plan.programs[0]);
  EXPECT_THROW((void)program(plan, "drain"), Error);
}

TEST(Plan, digest_follows_what_runs_and_not_how_it_was_found) {
  Plan plan = plan_of_three();
  const std::uint64_t original = digest(plan);
  plan.method = "dp";
  plan.figures.step_s = 3;
  plan.options["cuts"] = "joint";
  EXPECT_EQ(digest(plan), original);
  std::swap(plan.programs[0].ranks[0][0], plan.programs[0].ranks[0][1]);
  EXPECT_NE(digest(plan), original);
}

/// Members that take different routes wait for each other for ever.
TEST(Plan, digest_follows_routes) {
  const Plan plan = plan_of_three();
  Plan other = plan;
  other.transfers[0].route.segment_bytes = 1 << 20;
  EXPECT_NE(digest(other), digest(plan));
  other = plan;
  other.transfers[0].route.algorithm = Algorithm::chain;
  EXPECT_NE(digest(other), digest(plan));
}

TEST(Plan, refuses_segments_of_less_than_nothing) {
  Plan plan = plan_of_three();
  EXPECT_NO_THROW(validate(plan));
  plan.transfers[0].route.segment_bytes = -1;
  EXPECT_THROW(validate(plan), Error);
}

TEST(Plan, cells_print_as_in_the_papers) {
  const Plan plan = plan_of_three();
  EXPECT_EQ(cell(plan, {.op = Op::load_input, .microbatch = 4}), "X4");
  EXPECT_EQ(cell(plan, {.op = Op::load_labels, .microbatch = 4}), "Y4");
  EXPECT_EQ(cell(plan, {.op = Op::forward, .stage = 1, .microbatch = 3}), "1F3");
  EXPECT_EQ(cell(plan, {.op = Op::backward, .stage = 2, .microbatch = 3}), "1B3") << "the position, not the table row";
  EXPECT_EQ(cell(plan, {.op = Op::backward_input, .stage = 2, .microbatch = 3}), "1I3");
  EXPECT_EQ(cell(plan, {.op = Op::backward_weight, .stage = 2, .microbatch = 3}), "1W3");
  EXPECT_EQ(cell(plan, {.op = Op::recompute, .stage = 2, .microbatch = 3}), "1R3");
  EXPECT_EQ(cell(plan, {.op = Op::all_reduce_start, .transfer = 1}), "+T1");
  EXPECT_EQ(cell(plan, {.op = Op::multicast_start, .transfer = 0, .microbatch = 1}), "+T0.1");
  EXPECT_EQ(cell(plan, {.op = Op::multicast_wait, .transfer = 1}), "-T1");
  EXPECT_EQ(cell(plan, {.op = Op::optimizer_step, .stage = 2}), "U1");
}

}  // namespace
}  // namespace sluice
