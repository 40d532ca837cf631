#include "optimizer/planner/solve.h"

#include <gtest/gtest.h>

#include <map>

#include "brute_force.h"
#include "core/error.h"
#include "optimizer/planner/planner.h"

namespace sluice {
namespace {

using testing::OwnedProblem;
using testing::random_problem;

TEST(Solve, finds_and_proves_the_optimum_of_random_problems_with_all_features_together) {
  std::map<Method, int> settled;
  for (unsigned seed = 100'000; seed < 103'000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 2000);
    const Solution best = testing::brute_force(owned.problem());
    const Solved solved = solve(owned.problem(), Method::automatic, kNoDeadline);
    ++settled[solved.method];
    ASSERT_EQ(solved.solution.found(), best.found());
    if (!best.found()) continue;
    ASSERT_NEAR(solved.solution.price, best.price, 1e-9 * best.price);
    ASSERT_TRUE(is_optimal(solved.solution)) << solved.solution.price << " " << solved.solution.lower_bound;
  }
  EXPECT_GT(settled[Method::dp], 300);
  EXPECT_GT(settled[Method::exhaustive], 300);
}

TEST(Solve, dynamic_programming_is_sound_where_it_proves_nothing) {
  int gaps = 0;
  for (unsigned seed = 200'000; seed < 201'000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 1000);
    const Solution best = testing::brute_force(owned.problem());
    const Solution found = solve(owned.problem(), Method::dp, kNoDeadline).solution;
    EXPECT_GE(found.price * kRounding, best.price);
    EXPECT_LE(found.lower_bound, best.price * kRounding);
    gaps += best.found() && !is_optimal(found) ? 1 : 0;
  }
  EXPECT_GT(gaps, 50) << "the cases must not be easy ones only";
}

/// What was planned is built, verified by make_plan, and simulated, whatever its features.
TEST(Solve, whatever_is_planned_can_be_built_and_is_as_good_as_promised) {
  int planned = 0, optimal = 0, three = 0, replicated = 0, recomputed = 0, no_intervals = 0;
  for (unsigned seed = 300'000; seed < 300'600; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 1000);
    PlannerRequest request;
    request.profiles = {owned.profile};
    request.cluster = owned.cluster;
    request.schedule = owned.pricing.schedule;
    request.compute_only = owned.pricing.compute_only;
    request.microbatches = owned.pricing.microbatches;
    request.space = owned.space;
    request.goal = Goal::bottleneck;
    const Solution best = testing::brute_force(owned.problem());
    try {
      const Plan plan = make_plan(request).plan;
      ++planned;
      three += plan.figures.cuts == "three" ? 1 : 0;
      replicated += plan.figures.replicas.find_first_not_of("1,") != std::string::npos ? 1 : 0;
      recomputed += plan.figures.recomputed_layers > 0 ? 1 : 0;
      no_intervals += plan.figures.forward_cuts == "-" ? 1 : 0;
      // Not worse; better only where the exact memory count lets more plans in than the safe one.
      EXPECT_LE(plan.figures.bottleneck_s, best.price * kRounding);
      EXPECT_LE(plan.lower_bound_s, plan.figures.bottleneck_s * kRounding);
      optimal += plan.status == "optimal" ? 1 : 0;
      EXPECT_TRUE(memory_is_limited(owned.cluster) || plan.figures.bottleneck_s * kRounding >= best.price);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::infeasible) << error.what();
      EXPECT_FALSE(best.found()) << error.what();
    }
  }
  EXPECT_GT(planned, 400);
  EXPECT_GT(optimal, 250);
  EXPECT_GT(three, 20);
  EXPECT_GT(replicated, 50);
  EXPECT_GT(recomputed, 10);
  EXPECT_GT(no_intervals, 2);
}

}  // namespace
}  // namespace sluice
