#include "optimizer/solver/enumeration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "brute_force.h"
#include "core/error.h"

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

TEST(Enumeration, equals_brute_force_on_2000_random_problems) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 1000);
    expect_optimal(owned.problem(), enumerate(owned.problem()), brute_force(owned.problem()));
    if (HasFailure()) return;
  }
}

void slow_down_links(OwnedProblem& owned, double factor) {
  owned.cluster.intra_node.bandwidth_bytes_per_s /= factor;
  owned.cluster.inter_node.bandwidth_bytes_per_s /= factor;
  for (LayerCost& cost : owned.profile.costs) cost.parameter_bytes /= static_cast<std::int64_t>(factor);
}

/// Where bounds are easily taken for certain that are not.
const std::map<std::string, Change> kDelicate{
    {"backwards that recompute instead of receiving",
     [](OwnedProblem& p) {
       slow_down_links(p, 8);
       p.space.cuts = Cuts::independent;
       p.space.recompute = true;
       p.space.free_backward = false;
     }},
    {"nodes of two ranks on thin links",
     [](OwnedProblem& p) {
       slow_down_links(p, 4);
       p.space.recompute = p.space.free_backward = false;
       while (p.cluster.node_names.size() < p.cluster.ranks.size()) p.cluster.node_names.emplace_back("more");
       for (Rank rank = 0; rank < std::ssize(p.cluster.ranks); ++rank) p.cluster.ranks[at(rank)].node = rank / 2;
     }},
    {"freely dealt backwards in tight memory",
     [](OwnedProblem& p) {
       p.space.free_backward = true;
       p.pricing = {.schedule = "1f1b", .microbatches = 6};
       std::int64_t bytes = 0;
       for (const Tensor& tensor : p.profile.model.tensors) bytes += tensor.bytes;
       for (const LayerCost& cost : p.profile.costs) bytes += cost.parameter_bytes;
       const auto layers = static_cast<std::int64_t>(p.profile.costs.size());
       for (RankSpec& rank : p.cluster.ranks) rank.memory_bytes = 1 + bytes * (3 + layers % 4) / 3;
     }},
};

TEST(Enumeration, equals_brute_force_where_bounds_are_delicate) {
  for (const auto& [what, adjust] : kDelicate)
    for (unsigned seed = 0; seed < 500; ++seed) {
      SCOPED_TRACE(::testing::Message() << what << ", seed " << seed);
      const OwnedProblem owned = random_problem(seed, 600, adjust);
      expect_optimal(owned.problem(), enumerate(owned.problem()), brute_force(owned.problem()));
      if (HasFailure()) break;
    }
}

TEST(Enumeration, equals_brute_force_on_larger_problems) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 30000);
    expect_optimal(owned.problem(), enumerate(owned.problem()), brute_force(owned.problem()));
  }
}

TEST(Enumeration, finds_problems_where_each_feature_helps_and_each_limit_binds) {
  std::map<std::string, int> matters;
  int infeasible_problems = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 2000);
    const double price = enumerate(owned.problem()).price;
    for (const auto& [feature, removed] : features_of(owned.space)) {
      const double poorer = price_with(owned, removed);
      if (clearly_below(price, poorer)) ++matters[feature];
      // Two stages of backward may hold more than one, so three cuts may be dearer.
      EXPECT_TRUE(feature == "three cuts" || !clearly_below(poorer, price)) << "without " << feature;
    }
    for (const auto& [limit, lifted] : limits_of(owned)) {
      const double richer = price_with(owned, lifted);
      if (clearly_below(richer, price)) ++matters[limit];
      EXPECT_FALSE(clearly_below(price, richer)) << "without a limit by " << limit;
    }
    infeasible_problems += std::isinf(price) ? 1 : 0;
  }
  for (const char* what : {"replicas", "recompute", "ideals", "free backward", "independent cuts", "three cuts",
                           "all ranks", "memory", "NIC", "rank links"})
    EXPECT_GT(matters[what], 10) << what;
  EXPECT_GT(infeasible_problems, 80);
}

TEST(Enumeration, comes_back_at_the_deadline_with_a_sound_lower_bound) {
  int unfinished = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const OwnedProblem owned = random_problem(seed, 2000);
    const Solution best = enumerate(owned.problem());
    const Solution solution = enumerate(owned.problem(), Deadline::min());
    unfinished += solution.timed_out ? 1 : 0;
    EXPECT_LE(solution.lower_bound, best.price * kRounding);
    EXPECT_GE(solution.price * kRounding, best.price);
    EXPECT_TRUE(solution.timed_out || is_optimal(solution) == best.found());
  }
  EXPECT_GT(unfinished, 50);
}

TEST(Enumeration, keeps_an_incumbent_unless_there_is_better) {
  int kept = 0, improved = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    OwnedProblem owned = random_problem(seed, 2000);
    const Solution best = enumerate(owned.problem());
    const Cuts cuts = owned.space.cuts;
    if (cuts != Cuts::independent) continue;
    owned.space.cuts = Cuts::joint;
    const Solution joint = enumerate(owned.problem());
    owned.space.cuts = cuts;
    const Solution solution = enumerate(owned.problem(), kNoDeadline, joint);
    expect_optimal(owned.problem(), solution, best);
    if (solution.stages == joint.stages) ++kept;
    if (clearly_below(solution.price, joint.price)) ++improved;
  }
  EXPECT_GT(kept, 20);
  EXPECT_GT(improved, 20);
}

/// Equal layers and ranks without links, on nodes that are equal but for `ranks_per_node`.
OwnedProblem equal_everything(int layers, int nodes, int ranks_per_node) {
  OwnedProblem owned{
      testing::RandomCase(1).profile(layers, true), uniform_cluster(nodes, ranks_per_node, {}, {}), {}, {}};
  for (LayerCost& cost : owned.profile.costs) cost = {.forward_s = 1, .backward_input_s = 2};
  owned.pricing.microbatches = 4;
  owned.space.cuts = Cuts::joint;
  return owned;
}

TEST(Enumeration, tries_interchangeable_ranks_once) {
  OwnedProblem owned = equal_everything(10, 1, 10);
  EXPECT_LT(count_plans(owned.problem()), 200000);  // and not 10! times as many
  EXPECT_DOUBLE_EQ(enumerate(owned.problem()).price, 3);
  owned.cluster.ranks[4].speed = 2;
  EXPECT_GT(count_plans(owned.problem()), 1e9);
}

TEST(Enumeration, refuses_what_is_too_large_and_names_the_other_methods) {
  OwnedProblem owned = equal_everything(40, 4, 8);
  owned.space.cuts = Cuts::three;
  owned.space.recompute = true;
  try {
    (void)enumerate(owned.problem());
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
    EXPECT_NE(std::string(error.what()).find("--method dp or --method ilp"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sluice
