#include "optimizer/solver/solver.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "random_profile.h"

namespace sluice {
namespace {

using testing::RandomCase;

double price_of(const std::optional<PartitionSolution>& solution) {
  return solution ? solution->price : std::numeric_limits<double>::infinity();
}

/// Bounds ascend from 0 to L, and the solution's figures are those of its partition.
void expect_sound(const Objective& objective, const std::optional<PartitionSolution>& solution) {
  if (!solution) return;
  for (const auto* bounds : {&solution->partition.forward_bounds, &solution->partition.backward_bounds}) {
    ASSERT_EQ(std::ssize(*bounds), objective.ranks() + 1);
    EXPECT_EQ(bounds->front(), 0);
    EXPECT_EQ(bounds->back(), objective.layers());
    EXPECT_TRUE(std::is_sorted(bounds->begin(), bounds->end()));
  }
  EXPECT_EQ(used_workers(solution->partition), objective.workers());
  EXPECT_EQ(price(objective, solution->partition), solution->price);
}

/// A memory limit that some partitions meet and some do not.
std::int64_t tight_memory(RandomCase& random, const Profile& profile, int ranks) {
  const Cluster cluster = uniform_cluster(1, ranks, {}, {});
  const PartitionCost cost(profile, cluster, "1f1b", 2, false);
  const std::int64_t all = cost.load({0, cost.layers(), 0, cost.layers()}, {}).memory_bytes;
  return std::max<std::int64_t>(1, all * random.between(3, 12) / 10);
}

TEST(Solver, dynamic_programming_equals_exhaustive_search_on_500_random_profiles) {
  const std::string schedules[] = {"1f1b", "gpipe"};
  int infeasible_cases = 0, gains = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomCase random(seed);
    const int ranks = random.between(1, 4);
    const int layers = random.between(1, ranks == 4 ? 5 : 6);
    const Profile profile = random.profile(layers, random.chance(0.5));
    Cluster cluster = random.cluster(ranks, random.chance(0.7));
    if (random.chance(0.5))
      for (RankSpec& rank : cluster.ranks) rank.memory_bytes = tight_memory(random, profile, ranks);
    const PartitionCost cost(profile, cluster, schedules[random.between(0, 1)], random.between(1, 4),
                             random.chance(0.2));
    for (int workers = 1; workers <= ranks; ++workers) {
      const BottleneckObjective objective(cost, workers);
      const auto joint = solve_dp(objective, Cuts::joint);
      const auto independent = solve_dp(objective, Cuts::independent);
      expect_sound(objective, joint);
      expect_sound(objective, independent);
      EXPECT_EQ(price_of(joint), price_of(solve_exhaustively(objective, Cuts::joint)));
      EXPECT_EQ(price_of(independent), price_of(solve_exhaustively(objective, Cuts::independent)));
      EXPECT_LE(price_of(independent), price_of(joint));
      infeasible_cases += independent ? 0 : 1;
      gains += price_of(independent) < price_of(joint) ? 1 : 0;
      // A limit is exclusive, and what lies below it is still found.
      if (independent) {
        EXPECT_FALSE(solve_dp(objective, Cuts::independent, independent->price));
        EXPECT_EQ(price_of(solve_dp(objective, Cuts::independent, independent->price * 1.5 + 1)), independent->price);
      }
    }
  }
  EXPECT_GT(infeasible_cases, 50);
  EXPECT_GT(gains, 50);
}

/// Costs per layer in both directions as the layer's backward; compute only.
Profile chain_of(const std::vector<double>& seconds) {
  Profile profile = RandomCase(0).profile(static_cast<int>(seconds.size()), true);
  for (std::size_t l = 0; l < seconds.size(); ++l) profile.costs[l] = {.forward_s = 0, .backward_input_s = seconds[l]};
  return profile;
}

double best_joint(const std::vector<double>& seconds, int workers) {
  const Profile profile = chain_of(seconds);
  const Cluster cluster = uniform_cluster(1, workers, {}, {});
  const PartitionCost cost(profile, cluster, "1f1b", 1, true);
  return price_of(solve_dp(BottleneckObjective(cost, workers), Cuts::joint));
}

TEST(Solver, balances_what_published_balancers_did_not) {
  EXPECT_EQ(best_joint({1, 4, 2, 2}, 3), 4);
  EXPECT_EQ(best_joint({1, 3, 2, 1, 1, 2}, 4), 3);
  EXPECT_EQ(best_joint(std::vector<double>(38, 1), 8), 5);
  EXPECT_EQ(best_joint(std::vector<double>(30, 1), 4), 8);
}

TEST(Solver, gives_every_worker_work_when_as_many_are_asked_for) {
  EXPECT_EQ(best_joint({1, 1, 1, 1, 1}, 4), 2);
  const Profile profile = chain_of({1, 1});
  const Cluster cluster = uniform_cluster(1, 5, {}, {});
  const PartitionCost cost(profile, cluster, "1f1b", 1, true);
  EXPECT_FALSE(solve_dp(BottleneckObjective(cost, 3), Cuts::joint));
  EXPECT_TRUE(solve_dp(BottleneckObjective(cost, 4), Cuts::independent));  // two forwards, two backwards
  EXPECT_FALSE(solve_dp(BottleneckObjective(cost, 5), Cuts::independent));
}

TEST(Solver, leaves_a_slow_rank_out) {
  const Profile profile = chain_of({1, 1, 1, 1});
  Cluster cluster = uniform_cluster(1, 3, {}, {});
  cluster.ranks[1].speed = 0.01;
  const PartitionCost cost(profile, cluster, "1f1b", 1, true);
  const auto solution = solve_dp(BottleneckObjective(cost, 2), Cuts::joint);
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->price, 2);
  EXPECT_EQ(solution->partition.forward_bounds, (std::vector<int>{0, 2, 2, 4}));
}

TEST(Solver, prices_traffic_at_every_bandwidth) {
  Profile profile = chain_of({1, 1});
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 100;
  const auto bottleneck = [&](double bandwidth) {
    const Cluster cluster = uniform_cluster(1, 2, {0, bandwidth}, {0, bandwidth});
    const PartitionCost cost(profile, cluster, "1f1b", 1, false);
    return price_of(solve_dp(BottleneckObjective(cost, 2), Cuts::joint));
  };
  EXPECT_EQ(bottleneck(1000), 1);
  EXPECT_GT(bottleneck(10), 9);
}

TEST(Solver, refuses_an_exhaustive_search_without_end) {
  const Profile profile = chain_of(std::vector<double>(40, 1));
  const Cluster cluster = uniform_cluster(1, 8, {}, {});
  const PartitionCost cost(profile, cluster, "1f1b", 1, true);
  EXPECT_THROW((void)solve_exhaustively(BottleneckObjective(cost, 8), Cuts::joint), std::exception);
}

}  // namespace
}  // namespace sluice
