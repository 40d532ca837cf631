#include "optimizer/solver/search.h"

#include <gtest/gtest.h>

#include "brute_force.h"

namespace sluice {
namespace {

using testing::OwnedProblem;

double price_of(const Problem& problem, const std::vector<Stage>& stages) {
  return bottleneck(problem.cluster, loads_of(problem.profile, problem.cluster, stages, problem.pricing),
                    problem.pricing)
      .seconds;
}

/// One class of links and, unless replicas are barred, equal ranks: what the search claims to be exact for.
void level(OwnedProblem& owned) {
  for (RankSpec& rank : owned.cluster.ranks) rank.node = 0;
  owned.cluster.node_names.resize(1);
  if (owned.space.most_replicas > 1)
    for (RankSpec& rank : owned.cluster.ranks) rank = owned.cluster.ranks[0];
  owned.space.free_backward = owned.space.recompute = false;
}

TEST(Search, equals_brute_force_on_random_problems) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    OwnedProblem owned = testing::random_problem(seed, 3000);
    level(owned);
    const Problem problem = owned.problem();
    const Solution best = testing::brute_force(problem);
    const Solution found = search(problem, kNoDeadline);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    EXPECT_EQ(found.found(), best.found());
    if (!found.found()) {
      EXPECT_EQ(found.lower_bound, std::numeric_limits<double>::infinity());
      continue;
    }
    EXPECT_NEAR(found.price, best.price, 1e-9 * best.price);
    EXPECT_TRUE(is_optimal(found));
    EXPECT_EQ(price_of(problem, found.stages), found.price);
  }
}

}  // namespace
}  // namespace sluice
