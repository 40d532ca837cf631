#include "optimizer/schedule/generators.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/golden.h"

namespace sluice {
namespace {

using examples::cells;

class HandWrittenFigure : public testing::TestWithParam<const char*> {};

TEST_P(HandWrittenFigure, is_reproduced_by_four_workers_and_eight_microbatches) {
  const Plan plan = examples::textbook_plan(GetParam(), 4, 8, 1e-9, 2e-9);
  EXPECT_EQ(drawn(plan), golden_rows(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Schedules, HandWrittenFigure, testing::Values("1f1b", "gpipe", "interleaved-1f1b", "chimera"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

Plan plan_of(const Partition& partition, const std::string& schedule, int microbatches) {
  const int layers = partition.forward_bounds.back();
  const Profile profile = examples::chain(layers, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = stages_of(partition)});
}

TEST(Generators, one_worker_alternates_forward_and_backward_in_the_sequential_reference) {
  const Plan plan = plan_of({{0, 3}, {0, 3}}, "sequential", 3);
  EXPECT_EQ(cells(plan, generate_step(plan).ranks[0]), "0F0 0B0 0F1 0B1 0F2 0B2 U0");
}

TEST(Generators, sequential_over_several_workers_is_infeasible) {
  try {
    (void)plan_of({{0, 1, 3}, {0, 1, 3}}, "sequential", 3);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
  }
}

TEST(Generators, fewer_microbatches_than_workers_warm_up_with_what_there_is) {
  const Plan plan = plan_of({{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}}, "1f1b", 2);
  const Figure figure = generate_step(plan);
  EXPECT_EQ(cells(plan, figure.ranks[0]), "0F0 0F1 0B0 0B1 U0");
  EXPECT_EQ(cells(plan, figure.ranks[2]), "2F0 2F1 2B0 2B1 U2");
  EXPECT_EQ(cells(plan, figure.ranks[3]), "3F0 3B0 3F1 3B1 U3");
}

TEST(Generators, a_worker_without_forward_or_backward_has_the_other_alone) {
  const Plan plan = plan_of({{0, 1, 1, 3}, {0, 0, 2, 3}}, "1f1b", 2);
  const Figure figure = generate_step(plan);
  EXPECT_EQ(cells(plan, figure.ranks[0]), "0F0 0F1");
  EXPECT_EQ(cells(plan, figure.ranks[1]), "1B0 1B1 U1");
  EXPECT_EQ(cells(plan, figure.ranks[2]), "2F0 2B0 2F1 2B1 U2");
  EXPECT_EQ(cells(plan, figure.ranks[3]), "");
  EXPECT_EQ(cells(plan, generate_evaluate(plan).ranks[2]), "2F0 2F1");
}

TEST(Generators, an_unknown_schedule_is_bad_input) {
  EXPECT_THROW((void)plan_of({{0, 3}, {0, 3}}, "zigzag", 3), Error);
}

Plan plan_of_stages(std::vector<Stage> stages, const std::string& schedule, int microbatches, int ranks) {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(1, ranks, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = std::move(stages)});
}

TEST(Generators, replicas_take_turns_and_keep_as_many_in_flight_as_ranks_follow) {
  const Plan plan = plan_of_stages({{Work::forward, 0, {0}, {0, 1}},
                                    {Work::forward, 1, {1}, {2}},
                                    {Work::backward, 0, {0}, {0, 1}},
                                    {Work::backward, 1, {1}, {2}}},
                                   "1f1b", 5, 3);
  const Figure figure = generate_step(plan);
  EXPECT_EQ(cells(plan, figure.ranks[0]), "0F0 0F2 0B0 0F4 0B2 0B4 U0") << "three ranks: 0F2 stands before 0B0";
  EXPECT_EQ(cells(plan, figure.ranks[1]), "0F1 0F3 0B1 0B3 U0");
  EXPECT_EQ(cells(plan, figure.ranks[2]), "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1F4 1B4 U1");
}

TEST(Generators, forward_and_backward_of_a_position_may_have_different_replicas) {
  const Plan plan =
      plan_of_stages({{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 0, {0, 1}, {1, 2}}}, "gpipe", 3, 3);
  const Figure figure = generate_step(plan);
  EXPECT_EQ(cells(plan, figure.ranks[0]), "0F0 0F1 0F2");
  EXPECT_EQ(cells(plan, figure.ranks[1]), "0B0 0B2 U0");
  EXPECT_EQ(cells(plan, figure.ranks[2]), "0B1 U0");
}

TEST(Generators, a_backward_weight_waits_for_the_backward_inputs_of_its_consumers) {
  const Plan plan = plan_of_stages({{Work::forward, 0, {0}, {0}},
                                    {Work::forward, 1, {1}, {1}},
                                    {Work::backward_input, 0, {0, 1}, {0}},
                                    {Work::backward_weight, 1, {0, 1}, {1}}},
                                   "1f1b", 3, 2);
  const Figure figure = generate_step(plan);
  EXPECT_EQ(cells(plan, figure.ranks[0]), "0F0 0F1 0I0 0F2 0I1 0I2");
  EXPECT_EQ(cells(plan, figure.ranks[1]), "1F0 1F1 1W0 1F2 1W1 1W2 U1") << "layer 0's gradient comes from position 0";
}

TEST(Generators, positions_are_counted_not_their_indices) {
  const Plan plan = plan_of_stages({{Work::forward, 3, {0}, {0}},
                                    {Work::forward, 7, {1}, {1}},
                                    {Work::backward, 3, {0}, {0}},
                                    {Work::backward, 7, {1}, {1}}},
                                   "1f1b", 3, 2);
  const Figure figure = generate_step(plan);
  EXPECT_EQ(cells(plan, figure.ranks[0]), "3F0 3F1 3B0 3F2 3B1 3B2 U3");
  EXPECT_EQ(cells(plan, figure.ranks[1]), "7F0 7B0 7F1 7B1 7F2 7B2 U7");
}

TEST(Generators, recompute_stands_right_before_the_backward) {
  const Plan plan = plan_of_stages(
      {{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 0, {0, 1}, {0}}, {Work::recompute, 0, {0}, {0}}}, "gpipe", 2,
      1);
  EXPECT_EQ(cells(plan, generate_step(plan).ranks[0]), "0F0 0F1 0R0 0B0 0R1 0B1 U0");
  EXPECT_EQ(cells(plan, generate_evaluate(plan).ranks[0]), "0F0 0F1");
}

}  // namespace
}  // namespace sluice
