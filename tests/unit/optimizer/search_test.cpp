#include "optimizer/solver/search.h"

#include <gtest/gtest.h>

#include "brute_force.h"

namespace sluice {
namespace {

using testing::OwnedProblem;

bool ranks_differ(const Cluster& cluster) {
  for (const RankSpec& rank : cluster.ranks)
    if (rank.speed != cluster.ranks[0].speed || rank.memory_bytes != cluster.ranks[0].memory_bytes) return true;
  return false;
}

/// Leaves what the search claims to be exact for: one class of links, no backward sets dealt freely, no displaced
/// backwards recomputed, no replicas of unequal speed.
void level(OwnedProblem& owned, unsigned seed) {
  for (RankSpec& rank : owned.cluster.ranks) rank.node = 0;
  owned.cluster.node_names.resize(1);
  owned.space.free_backward = false;
  if (owned.space.recompute && seed % 4 > 0) owned.space.cuts = Cuts::joint;
  if (owned.space.cuts != Cuts::joint) owned.space.recompute = false;
  if (owned.space.most_replicas > 1)
    for (RankSpec& rank : owned.cluster.ranks) rank = owned.cluster.ranks[0];
}

TEST(Search, equals_brute_force_on_2500_random_problems) {
  int infeasible = 0, unequal = 0, replicated = 0, recomputed = 0;
  for (unsigned seed = 0; seed < 2500; ++seed) {
    OwnedProblem owned = testing::random_problem(seed, 3000);
    level(owned, seed);
    const Problem problem = owned.problem();
    const Solution best = testing::brute_force(problem);
    const Solution found = search(problem, kNoDeadline);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": found " << found.price << ", bound " << found.lower_bound
                                      << ", best " << best.price);
    ASSERT_EQ(found.found(), best.found());
    if (!found.found()) {
      EXPECT_EQ(found.lower_bound, kInfinity);
      ++infeasible;
      continue;
    }
    ASSERT_NEAR(found.price, best.price, 1e-9 * best.price);
    EXPECT_TRUE(is_optimal(found));
    EXPECT_EQ(price_of(problem, found.stages), found.price);
    unequal += ranks_differ(problem.cluster) ? 1 : 0;
    for (const Stage& stage : found.stages) {
      replicated += stage.owners.size() > 1 ? 1 : 0;
      recomputed += stage.work == Work::recompute ? 1 : 0;
    }
  }
  for (const int cases : {infeasible, unequal, replicated, recomputed}) EXPECT_GT(cases, 15);
}

TEST(Search, bounds_the_best_of_1500_random_problems_of_every_kind) {
  int optimal = 0, possible = 0;
  for (unsigned seed = 10'000; seed < 11'500; ++seed) {
    const OwnedProblem owned = testing::random_problem(seed, 3000);
    const Problem problem = owned.problem();
    const Solution best = testing::brute_force(problem);
    const Solution found = search(problem, kNoDeadline);
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": found " << found.price << ", bound " << found.lower_bound
                                      << ", best " << best.price);
    ASSERT_LE(found.lower_bound, best.price * kRounding);
    if (!found.found()) continue;
    ASSERT_GE(found.price * kRounding, best.price);
    EXPECT_EQ(price_of(problem, found.stages), found.price);
    ++possible;
    optimal += is_optimal(found) ? 1 : 0;
  }
  EXPECT_GT(optimal, possible / 2);
}

}  // namespace
}  // namespace sluice
