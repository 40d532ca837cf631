#include "optimizer/solver/ilp.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "brute_force.h"
#include "core/error.h"
#include "optimizer/solver/search.h"

namespace sluice {
namespace {

using testing::OwnedProblem;
using testing::RandomProblem;

/// CBC counts in floating point.
constexpr double kTolerance = 2e-6;

void expect_same(const Problem& problem, const Solution& found, const Solution& best) {
  EXPECT_EQ(found.found(), best.found());
  if (found.found()) {
    EXPECT_NEAR(found.price, best.price, kTolerance * best.price);
    EXPECT_EQ(price_of(problem, found.stages), found.price);
    EXPECT_TRUE(is_optimal(found));
  } else {
    EXPECT_EQ(found.lower_bound, std::numeric_limits<double>::infinity());
  }
}

using Feature = std::function<bool(const OwnedProblem&)>;

using Change = std::function<void(OwnedProblem&)>;

/// Compares so many problems that have the feature, at least a third of which must have a plan.
void compare_with_brute_force(
    unsigned first_seed, int problems, const Feature& has_feature, const Change& change = [](OwnedProblem&) {}) {
  int compared = 0, feasible = 0;
  for (unsigned seed = first_seed; compared < problems; ++seed) {
    OwnedProblem owned = testing::random_problem(seed, 2000);
    owned.space.most_replicas = 1;
    if (!has_feature(owned)) continue;
    ++compared;
    change(owned);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Solution best = testing::brute_force(owned.problem());
    expect_same(owned.problem(), solve_ilp(owned.problem()), best);
    feasible += best.found() ? 1 : 0;
  }
  EXPECT_GT(3 * feasible, problems);
}

bool shares_nics(const OwnedProblem& owned) {
  const std::size_t nodes = owned.cluster.node_names.size();
  return nodes > 1 && nodes < owned.cluster.ranks.size() && !owned.pricing.compute_only;
}

bool has_unequal_ranks(const OwnedProblem& owned) {
  std::set<std::pair<double, std::int64_t>> kinds;
  for (const RankSpec& rank : owned.cluster.ranks) kinds.emplace(rank.speed, rank.memory_bytes);
  return kinds.size() > 1;
}

TEST(Ilp, equals_brute_force_where_ranks_share_nics) { compare_with_brute_force(10000, 25, shares_nics); }

TEST(Ilp, equals_brute_force_where_passing_on_inside_a_node_is_dear) {
  const auto may_pass_on = [](const OwnedProblem& owned) {
    return shares_nics(owned) && owned.space.cuts != Cuts::joint && owned.cluster.ranks.size() == 3;
  };
  compare_with_brute_force(15000, 25, may_pass_on, [](OwnedProblem& owned) {
    owned.cluster.intra_node.bandwidth_bytes_per_s = owned.cluster.inter_node.bandwidth_bytes_per_s / 2;
    owned.cluster = with_unlimited_memory(owned.cluster);
  });
}

TEST(Ilp, equals_brute_force_where_ranks_are_unequal) { compare_with_brute_force(20000, 25, has_unequal_ranks); }

TEST(Ilp, equals_brute_force_where_memory_is_limited) {
  compare_with_brute_force(30000, 25, [](const OwnedProblem& owned) { return memory_is_limited(owned.cluster); });
}

TEST(Ilp, equals_brute_force_where_layers_may_be_recomputed) {
  compare_with_brute_force(40000, 25, [](const OwnedProblem& owned) { return owned.space.recompute; });
}

TEST(Ilp, equals_brute_force_where_backwards_are_dealt_freely) {
  compare_with_brute_force(50000, 25, [](const OwnedProblem& owned) { return owned.space.free_backward; });
}

TEST(Ilp, equals_brute_force_over_ideals) {
  compare_with_brute_force(60000, 25, [](const OwnedProblem& owned) { return owned.space.ideals; });
}

TEST(Ilp, equals_brute_force_with_three_cuts) {
  compare_with_brute_force(70000, 25, [](const OwnedProblem& owned) { return owned.space.cuts == Cuts::three; });
}

TEST(Ilp, equals_brute_force_where_late_backward_weights_fill_memory) {
  const auto is_full = [](const OwnedProblem& owned) {
    return owned.space.cuts == Cuts::three && memory_is_limited(owned.cluster) && owned.cluster.ranks.size() < 4;
  };
  compare_with_brute_force(75000, 20, is_full, [](OwnedProblem& owned) {
    owned.pricing.microbatches = 6;
    for (RankSpec& rank : owned.cluster.ranks) rank.memory_bytes *= 2;
  });
}

TEST(Ilp, equals_brute_force_where_every_rank_must_work) {
  compare_with_brute_force(80000, 20, [](const OwnedProblem& owned) { return owned.space.exactly; });
}

/// Equal ranks and one class of links: what the dynamic program has exactly, too.
OwnedProblem uniform_problem(unsigned seed, int layers, int ranks) {
  OwnedProblem owned = RandomProblem(seed).of(layers, ranks);
  for (RankSpec& rank : owned.cluster.ranks) {
    rank = owned.cluster.ranks.front();
    rank.node = 0;
  }
  owned.cluster.node_names.resize(1);
  owned.space.most_replicas = 1;
  owned.space.free_backward = owned.space.recompute = false;
  return owned;
}

TEST(Ilp, agrees_with_the_dynamic_program_on_up_to_12_layers_and_4_ranks) {
  for (unsigned seed = 9; seed < 24; ++seed) {
    const OwnedProblem owned = uniform_problem(seed, 6 + static_cast<int>(seed) % 7, 2 + static_cast<int>(seed) % 3);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Solution best = search(owned.problem(), kNoDeadline);
    expect_same(owned.problem(), solve_ilp(owned.problem()), best);
  }
}

/// Too large to be solved in seconds, and what to begin with: all on one rank.
struct Endless {
  OwnedProblem owned = uniform_problem(1, 60, 12);
  std::vector<Stage> seed{{Work::forward, 0, {}, {0}}, {Work::backward, 0, {}, {0}}};

  Endless() {
    owned.space.cuts = Cuts::independent;
    for (Rank rank = 0; rank < 12; ++rank) owned.cluster.ranks[at(rank)].node = rank / 4;
    owned.cluster.node_names = {"a", "b", "c"};
    owned.cluster = with_unlimited_memory(owned.cluster);
    for (LayerId layer = 0; layer < 60; ++layer)
      for (Stage& stage : seed) stage.layers.push_back(layer);
  }

  [[nodiscard]] Solution solve(int milliseconds) const {
    return solve_ilp(owned.problem(), seed, 0,
                     std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds));
  }
};

TEST(Ilp, comes_back_at_the_deadline_with_the_seed_and_a_bound) {
  const Endless endless;
  const Solution solution = endless.solve(1500);
  EXPECT_TRUE(solution.timed_out);
  EXPECT_TRUE(solution.found());
  EXPECT_LE(solution.price, price_of(endless.owned.problem(), endless.seed));
  EXPECT_GT(solution.lower_bound, 0);
  EXPECT_LE(solution.lower_bound, solution.price);
}

/// CBC calls a program infeasible if its time runs out within certain steps: on one machine some 20 ms of these.
TEST(Ilp, does_not_take_the_want_of_time_for_a_proof) {
  const Endless endless;
  for (const int milliseconds : {300, 600, 940, 976, 980, 988, 996, 1012}) {
    const Solution solution = endless.solve(milliseconds);
    EXPECT_TRUE(solution.timed_out) << milliseconds << " ms: " << solution.price << ", " << solution.lower_bound;
  }
}

TEST(Ilp, proves_a_seed_that_meets_the_bound_without_searching) {
  const OwnedProblem owned = uniform_problem(3, 6, 2);
  const Solution best = search(owned.problem(), kNoDeadline);
  const Solution solution = solve_ilp(owned.problem(), best.stages, best.price, std::chrono::steady_clock::now());
  EXPECT_TRUE(is_optimal(solution));
  EXPECT_EQ(solution.stages, best.stages);
}

TEST(Ilp, refuses_replicas) {
  OwnedProblem owned = uniform_problem(3, 6, 2);
  owned.space.most_replicas = 2;
  EXPECT_THROW((void)solve_ilp(owned.problem()), Error);
}

}  // namespace
}  // namespace sluice
