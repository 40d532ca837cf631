#include "optimizer/solver/enumeration.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "brute_force.h"

namespace sluice {
namespace {

using testing::brute_force;
using testing::OwnedProblem;
using testing::random_problem;

Bottleneck bottleneck_of(const Problem& problem, const std::vector<Stage>& stages) {
  return bottleneck(problem.cluster, loads_of(problem.profile, problem.cluster, stages, problem.pricing),
                    problem.pricing);
}

bool clearly_below(double price, double other) { return price * kRounding < other; }

/// Equal prices, or both without a plan; the solution's figures are those of its stages.
void expect_optimal(const Problem& problem, const Solution& solution, const Solution& expected) {
  ASSERT_EQ(solution.found(), expected.found());
  EXPECT_FALSE(solution.timed_out);
  EXPECT_EQ(solution.lower_bound, solution.price);
  if (!expected.found()) return;
  EXPECT_FALSE(clearly_below(expected.price, solution.price)) << solution.price << " and not " << expected.price;
  EXPECT_FALSE(clearly_below(solution.price, expected.price)) << solution.price << " and not " << expected.price;
  EXPECT_EQ(bottleneck_of(problem, solution.stages).seconds, solution.price);
}

using Change = std::function<void(OwnedProblem&)>;

/// What a space has besides the plainest one, and how to take it away.
std::map<std::string, Change> features_of(const SearchSpace& space) {
  std::map<std::string, Change> features;
  if (space.most_replicas > 1) features["replicas"] = [](OwnedProblem& p) { p.space.most_replicas = 1; };
  if (space.recompute) features["recompute"] = [](OwnedProblem& p) { p.space.recompute = false; };
  if (space.ideals) features["ideals"] = [](OwnedProblem& p) { p.space.ideals = false; };
  if (space.free_backward) features["free backward"] = [](OwnedProblem& p) { p.space.free_backward = false; };
  if (space.cuts == Cuts::independent)
    features["independent cuts"] = [](OwnedProblem& p) { p.space.cuts = Cuts::joint; };
  if (space.cuts == Cuts::three) features["three cuts"] = [](OwnedProblem& p) { p.space.cuts = Cuts::independent; };
  return features;
}

/// What makes plans dearer, and how to lift it.
std::map<std::string, Change> limits_of(const OwnedProblem& owned) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::map<std::string, Change> limits;
  if (owned.space.exactly) limits["all ranks"] = [](OwnedProblem& p) { p.space.exactly = false; };
  if (memory_is_limited(owned.cluster))
    limits["memory"] = [](OwnedProblem& p) { p.cluster = with_unlimited_memory(p.cluster); };
  limits["NIC"] = [](OwnedProblem& p) { p.cluster.inter_node.bandwidth_bytes_per_s = kInfinity; };
  limits["rank links"] = [](OwnedProblem& p) { p.cluster.intra_node.bandwidth_bytes_per_s = kInfinity; };
  return limits;
}

double price_with(OwnedProblem owned, const Change& change) {
  change(owned);
  return enumerate(owned.problem()).price;
}

TEST(Enumeration, equals_brute_force_on_2000_random_problems_where_every_feature_and_limit_matters) {
  std::map<std::string, int> matters;
  int infeasible_problems = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 2000);
    const Solution solution = enumerate(owned.problem());
    expect_optimal(owned.problem(), solution, brute_force(owned.problem()));
    if (HasFailure()) return;
    for (const auto& [feature, removed] : features_of(owned.space))
      if (clearly_below(solution.price, price_with(owned, removed))) ++matters[feature];
    for (const auto& [limit, lifted] : limits_of(owned))
      if (clearly_below(price_with(owned, lifted), solution.price)) ++matters[limit];
    infeasible_problems += solution.found() ? 0 : 1;
  }
  for (const char* what : {"replicas", "recompute", "ideals", "free backward", "independent cuts", "three cuts",
                           "all ranks", "memory", "NIC", "rank links"})
    EXPECT_GT(matters[what], 15) << what;
  EXPECT_GT(infeasible_problems, 80);
}

}  // namespace
}  // namespace sluice
