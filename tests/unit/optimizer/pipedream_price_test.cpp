#include "optimizer/solver/pipedream_price.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "optimizer/import/pipedream.h"
#include "optimizer/planner/solve.h"
#include "optimizer/solver/search.h"
#include "pipedream_results.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::PipedreamResult;

constexpr LinkClass kInside{0, 12.5e9}, kBetween{0, 1.25e9};
constexpr int kMicrobatches = 48;  // many numbers of replicas divide it

Profile profile_of(const std::string& name) {
  return import_pipedream(testing::kPipedreamFolder + name + ".graph.txt").profile;
}

Cluster cluster_of(const std::vector<PipedreamLevel>& levels) {
  if (levels.size() == 1) return uniform_cluster(levels[0].machines, 1, kInside, {0, levels[0].bandwidth_bytes_per_s});
  return uniform_cluster(levels[1].machines, levels[0].machines, {0, levels[0].bandwidth_bytes_per_s},
                         {0, levels[1].bandwidth_bytes_per_s});
}

TEST(PipedreamPrice, searches_find_the_published_optima) {
  int runs = 0;
  for (const PipedreamResult& result : testing::pipedream_results()) {
    const bool limited = result.rules.memory_bytes != kUnlimitedMemory;
    if (result.levels.size() > 1 || result.rules.activations || limited) continue;
    const Profile profile = profile_of(result.profile);
    const Cluster cluster = cluster_of(result.levels);
    const SearchSpace space{.cuts = Cuts::joint,
                            .most_replicas = result.rules.replicas ? result.levels[0].machines : 1,
                            .ideals = result.profile != "inception_v3"};
    const Solution found = solve_pipedream({profile, cluster, {"1f1b", kMicrobatches}, space}, false, kNoDeadline);
    EXPECT_NEAR(found.price, result.plan.time_s, 1e-4 * result.plan.time_s) << result.name();
    EXPECT_TRUE(is_optimal(found)) << result.name();
    ++runs;
  }
  EXPECT_EQ(runs, 44);
}

TEST(PipedreamPrice, searches_equal_its_own_recurrence_on_random_graphs) {
  for (unsigned seed = 1; seed <= 500; ++seed) {
    testing::RandomCase random(seed);
    const Profile profile = random.profile(random.between(1, 7), random.chance(0.3));
    const Cluster cluster = random.cluster(random.between(1, 6), true);
    const SearchSpace space{.cuts = Cuts::joint,
                            .most_replicas = random.chance(0.7) ? static_cast<int>(cluster.ranks.size()) : 1,
                            .ideals = random.chance(0.5)};
    PipedreamRules rules;
    rules.replicas = space.most_replicas > 1;
    const PipedreamPlan expected =
        solve_pipedream_levels(pipedream_states(profile, space.ideals), pipedream_levels(cluster), rules);
    const Solution found = solve_pipedream({profile, cluster, {"1f1b", 4}, space}, false, kNoDeadline);
    EXPECT_NEAR(found.price, expected.time_s, 1e-9 * expected.time_s) << "seed " << seed;
    EXPECT_TRUE(is_optimal(found)) << "seed " << seed;
  }
}

TEST(PipedreamPrice, no_worker_costs_less_than_the_floor_of_a_part_of_it) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    testing::RandomCase random(seed);
    const Profile profile = random.profile(4, true);
    const Cluster cluster = random.cluster(1, true);
    const WorkerCost cost(profile, cluster, {"1f1b", 4});
    const PipedreamPrice objective(cost, random.between(1, 25) * 0.2);
    WorkerTally tally(cost);
    for (LayerId layer = 0; layer < 2; ++layer)
      for (const Work work : {Work::forward, Work::backward}) tally.add({layer, work});
    const RankSpec rank{.speed = random.between(1, 4) * 0.5};
    const double floor = objective.floor(tally.load(), 6, rank);
    const LayerId more = random.between(2, 3);
    tally.add({more, Work::forward});
    tally.add({more, Work::backward});
    for (int replicas = 1; replicas <= 6; ++replicas)
      EXPECT_GE(objective.price(tally.load(), {replicas, replicas, 6}, rank), floor) << "seed " << seed;
  }
}

double our_price(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages) {
  const Pricing pricing{"1f1b", kMicrobatches};
  return bottleneck(cluster, loads_of(profile, cluster, stages, pricing), pricing).seconds;
}

TEST(PipedreamPrice, its_published_plans_cost_no_less_than_ours) {
  for (const PipedreamResult& result : testing::pipedream_results()) {
    if (result.profile != "alexnet" && result.profile != "vgg16") continue;  // of the others we do not know the states
    if (std::isinf(result.plan.time_s)) continue;
    const Profile profile = profile_of(result.profile);
    const Cluster cluster = cluster_of(result.levels);
    const SearchSpace space{.cuts = Cuts::joint, .most_replicas = static_cast<int>(cluster.ranks.size())};
    const Solution ours = solve({profile, cluster, {"1f1b", kMicrobatches}, space}, Method::dp, kNoDeadline).solution;
    const double its = our_price(profile, cluster,
                                 stages_from_pipedream(pipedream_states(profile, false), result.plan, result.levels));
    EXPECT_LE(ours.price, its * kRounding) << result.name();
  }
}

PipedreamResult result_named(const std::string& name) {
  for (const PipedreamResult& result : testing::pipedream_results())
    if (result.name() == name) return result;
  throw bad_input("no published run is named " + name);
}

TEST(PipedreamPrice, a_published_plan_within_16_gb_needs_more_and_is_refused) {
  const PipedreamResult result = result_named("vgg16 n=4 b=1.25e9 mem");
  const Profile profile = profile_of(result.profile);
  Cluster cluster = cluster_of(result.levels);
  for (RankSpec& rank : cluster.ranks) rank.memory_bytes = 16'000'000'000;
  const auto stages = stages_from_pipedream(pipedream_states(profile, false), result.plan, result.levels);
  const Pricing pricing{"1f1b", kMicrobatches};
  const Loads loads = loads_of(profile, cluster, stages, pricing);
  EXPECT_EQ(bottleneck(cluster, loads, pricing).resource, Resource::memory);
  // Without recomputation nothing fits; the search proves it.
  const Solution ours = search({profile, cluster, pricing, {.most_replicas = 4}}, kNoDeadline);
  EXPECT_FALSE(ours.found());
  EXPECT_TRUE(std::isinf(ours.lower_bound));
}

TEST(PipedreamPrice, the_candidate_for_nodes_of_several_ranks_is_no_worse_than_any_published_plan) {
  for (const PipedreamResult& result : testing::pipedream_results()) {
    if (result.profile != "alexnet" && result.profile != "vgg16") continue;
    if (result.levels.size() == 1) continue;
    const Profile profile = profile_of(result.profile);
    const Cluster cluster = cluster_of(result.levels);
    const int ranks = static_cast<int>(cluster.ranks.size());
    const Solution candidate =
        pipedream_candidate({profile, cluster, {"1f1b", kMicrobatches}, {.most_replicas = ranks}});
    ASSERT_TRUE(candidate.found()) << result.name();
    const double its = our_price(profile, cluster,
                                 stages_from_pipedream(pipedream_states(profile, false), result.plan, result.levels));
    EXPECT_LE(candidate.price, its * kRounding) << result.name();
  }
}

TEST(PipedreamPrice, there_is_no_candidate_where_pipedream_has_no_plan) {
  const Profile profile = testing::RandomCase(1).profile(3, true);
  const auto found = [&](const Cluster& cluster, const SearchSpace& space) {
    return pipedream_candidate({profile, cluster, {"1f1b", 4}, space}).found();
  };
  const Cluster good = uniform_cluster(2, 2, kInside, kBetween);
  EXPECT_TRUE(found(good, {.most_replicas = 4}));
  EXPECT_TRUE(found(good, {.most_replicas = 1}));
  EXPECT_FALSE(found(good, {.most_replicas = 2}));
  EXPECT_FALSE(found(good, {.exactly = true}));
  EXPECT_FALSE(found(uniform_cluster(1, 1 << 16, kInside, kBetween), {.most_replicas = 1 << 16}));
  Cluster uneven = good;
  uneven.ranks[1].node = 1;
  EXPECT_FALSE(found(uneven, {}));
  for (RankSpec& rank : uneven.ranks) rank.node = 0, rank.memory_bytes = 1;
  uneven.node_names = {"all"};
  EXPECT_FALSE(found(uneven, {}));
}

TEST(PipedreamPrice, levels_are_planned_on_nodes_of_several_ranks) {
  const Profile profile = profile_of("alexnet");
  const Cluster cluster = uniform_cluster(4, 4, kInside, kBetween);
  const Solution found = solve_pipedream(
      {profile, cluster, {"1f1b", kMicrobatches}, {.cuts = Cuts::joint, .most_replicas = 16}}, false, kNoDeadline);
  EXPECT_NEAR(found.price, 6.37863e-3, 1e-7);
  EXPECT_TRUE(is_optimal(found));
  const Solution straight =
      solve_pipedream({profile, cluster, {"1f1b", kMicrobatches}, {.cuts = Cuts::joint}}, false, kNoDeadline);
  EXPECT_NEAR(straight.price, 28.721e-3, 1e-6);
  EXPECT_THROW((void)solve_pipedream({profile, cluster, {"1f1b", 1}, {.cuts = Cuts::independent}}, false, kNoDeadline),
               Error);
}

}  // namespace
}  // namespace sluice
