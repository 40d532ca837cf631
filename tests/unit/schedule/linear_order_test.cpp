#include "optimizer/schedule/linear_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/fetched_weights.h"
#include "core/index.h"
#include "core/liveness.h"
#include "optimizer/schedule/build_plan.h"
#include "optimizer/schedule/cooperative.h"
#include "optimizer/schedule/generators.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

/// Numbers of a random plan's step, by stage and micro-batch, and of its updates.
struct Numbered {
  explicit Numbered(const Plan& plan) : figure(generate_step(plan)), order(linear_order(plan, figure)) {
    for (Rank rank = 0; rank < std::ssize(order); ++rank)
      for (int i = 0; i < std::ssize(order[at(rank)]); ++i) {
        const Instruction& instruction = figure.ranks[at(rank)][at(i)];
        if (instruction.op == Op::optimizer_step)
          updates.emplace_back(instruction.stage, order[at(rank)][at(i)]);
        else
          number[{instruction.stage, instruction.microbatch}] = order[at(rank)][at(i)];
      }
  }

  Figure figure;
  std::vector<std::vector<int>> order;
  std::map<std::pair<int, int>, int> number;
  std::vector<std::pair<int, int>> updates;  // stage, number
};

TEST(LinearOrder, numbers_everything_once_and_ascends_along_each_rank) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Numbered numbered(examples::random_plan(seed));
    std::set<int> all;
    for (const std::vector<int>& rank : numbered.order) {
      EXPECT_TRUE(std::is_sorted(rank.begin(), rank.end())) << "seed " << seed;
      all.insert(rank.begin(), rank.end());
    }
    EXPECT_EQ(std::ssize(all), std::ssize(numbered.number) + std::ssize(numbered.updates)) << "seed " << seed;
  }
}

TEST(LinearOrder, writes_before_it_reads) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_plan(seed);
    const DataFlow flow(plan);
    const Numbered numbered(plan);
    std::map<ValueUse, int> first_written;
    const auto for_each = [&](const auto& visit) {
      for (const auto& [done, number] : numbered.number) {
        const Stage& stage = plan.stages[at(done.first)];
        const Instruction instruction{.op = op_of(stage.work), .stage = done.first, .microbatch = done.second};
        visit(flow.access(instruction, owner(stage, done.second)), number);
      }
    };
    for_each([&](const Access& access, int number) {
      for (const ValueUse& use : access.writes) {
        int& first = first_written.try_emplace(use, number).first->second;
        first = std::min(first, number);
      }
    });
    for_each([&](const Access& access, int number) {
      for (const ValueUse& use : access.reads)
        if (plan.profile.model.tensors[at(use.value.tensor)].producer != kDataset) {
          EXPECT_LT(first_written.at(use), number);
        }
    });
  }
}

TEST(LinearOrder, updates_follow_the_backwards_of_all_replicas) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Plan plan = examples::random_plan(seed);
    const Numbered numbered(plan);
    for (const auto& [stage, update] : numbered.updates)
      for (int m = 0; m < plan.microbatches; ++m)
        EXPECT_LT(numbered.number.at({stage, m}), update) << "seed " << seed << ", stage " << stage;
  }
}

TEST(LinearOrder, no_forward_runs_ahead_of_a_backward_at_its_position_or_before) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Plan plan = examples::random_plan(seed);
    const Numbered numbered(plan);
    const std::vector<Position>& positions = numbered.figure.positions;
    for (int k = 0; k < std::ssize(positions); ++k)
      for (int j = k; j < std::ssize(positions); ++j) {
        if (positions[at(j)].forward == kNone || positions[at(k)].backward == kNone) continue;
        const int delay = positions[at(k)].backward_delay;
        for (int m = delay + 1; m < plan.microbatches; ++m)
          EXPECT_GT(numbered.number.at({positions[at(j)].forward, m}),
                    numbered.number.at({positions[at(k)].backward, m - 1 - delay}))
              << "seed " << seed << ", forward " << j << ", backward " << k;
      }
  }
}

TEST(LinearOrder, weights_are_used_nowhere_before_all_who_fetch_them_have_room) {
  const Profile profile = examples::chain(6, 1e-9, 2e-9);
  Cluster cluster = uniform_cluster(1, 6, {}, {});
  cluster.ranks[1].speed = 0.1;  // the others would be three stages ahead of it
  const Plan plan = build_plan({.profile = profile,
                                .cluster = cluster,
                                .schedule = "cooperative",
                                .microbatches = 12,
                                .stages = cooperative_stages(profile.model, {0, 1, 2, 3, 4, 5, 6})});
  const std::vector<int> stages = fetching_stages(plan, DataFlow(plan), 1);
  const Numbered numbered(plan);
  ASSERT_EQ(stages.size(), 4U);
  for (std::size_t j = kFetchedStagesHeld; j < stages.size(); ++j)
    for (int m = 0; m < 12; ++m)
      EXPECT_GT(numbered.number.at({stages[j], m}), numbered.number.at({stages[j - kFetchedStagesHeld], 7}))
          << "stage " << stages[j] << ", micro-batch " << m << " against rank 1's last of two fetched stages before";
}

}  // namespace
}  // namespace sluice
