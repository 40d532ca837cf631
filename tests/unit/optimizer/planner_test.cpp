#include "optimizer/planner/planner.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/liveness.h"
#include "core/text.h"
#include "core/verifier.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::RandomCase;

PlannerRequest request_for(const Profile& profile, const Cluster& cluster, const std::string& schedule = "1f1b") {
  return {.search = {.profile = profile, .cluster = cluster, .schedule = schedule, .microbatches = 4}};
}

/// The plan, or nothing where none is feasible.
std::optional<Plan> plan_for(const PlannerRequest& request) {
  try {
    return make_plan(request).plan;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible) << error.what();
    return std::nullopt;
  }
}

double objective_of(const std::optional<Plan>& plan, Goal goal) {
  if (!plan) return std::numeric_limits<double>::infinity();
  return goal == Goal::step ? plan->figures.step_s : plan->figures.bottleneck_s;
}

void expect_refused(const PlannerRequest& request, ExitCode code, const std::string& part_of_message) {
  try {
    (void)make_plan(request);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

/// One second forward, two backward a layer; a tensor of `bytes` between two layers.
Profile even_chain(int layers, std::int64_t bytes = 0) {
  Profile profile = RandomCase(0).profile(layers, true);
  for (LayerCost& cost : profile.costs) cost = {.forward_s = 1, .backward_input_s = 2};
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = bytes;
  return profile;
}

TEST(Planner, independent_cuts_are_never_worse_under_either_objective) {
  int infeasible_cases = 0, gains = 0, unused = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomCase random(seed);
    const int ranks = random.between(1, 4), layers = random.between(1, 6);
    const Profile profile = random.profile(layers, random.chance(0.5));
    const std::int64_t memory = random.chance(0.5) ? random.between(300, 1500) : kUnlimitedMemory;
    const Cluster cluster = random.cluster(ranks, random.chance(0.7), memory);
    PlannerRequest request = request_for(profile, cluster, random.chance(0.7) ? "1f1b" : "gpipe");
    request.search.microbatches = random.between(1, 5);
    request.goal = random.chance(0.5) ? Goal::step : Goal::bottleneck;
    request.exactly = random.chance(0.3);
    SCOPED_TRACE(text("seed ", seed));
    request.search.cuts = Cuts::joint;
    const auto joint = plan_for(request);
    request.search.cuts = Cuts::independent;
    const auto independent = plan_for(request);
    EXPECT_LE(objective_of(independent, request.goal), objective_of(joint, request.goal));
    infeasible_cases += independent ? 0 : 1;
    gains += objective_of(independent, request.goal) < objective_of(joint, request.goal) ? 1 : 0;
    if (!independent) continue;
    EXPECT_FALSE(verify(*independent));
    EXPECT_GE(independent->figures.workers, request.exactly ? ranks : 1);
    unused += independent->figures.workers < ranks ? 1 : 0;
  }
  EXPECT_GT(infeasible_cases, 10);
  EXPECT_GT(gains, 10);
  EXPECT_GT(unused, 10);
}

TEST(Planner, both_methods_find_the_same_bottleneck) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    RandomCase random(seed);
    const int ranks = random.between(1, 3);
    const Profile profile = random.profile(random.between(1, 5), random.chance(0.5));
    const Cluster cluster = random.cluster(ranks, true, random.chance(0.5) ? random.between(400, 1500) : 1 << 30);
    PlannerRequest request = request_for(profile, cluster);
    request.search.microbatches = random.between(1, 4);
    request.goal = Goal::bottleneck;
    const auto by_dp = plan_for(request);
    request.search.method = Method::exhaustive;
    const auto by_trying_all = plan_for(request);
    EXPECT_EQ(objective_of(by_dp, Goal::bottleneck), objective_of(by_trying_all, Goal::bottleneck)) << "seed " << seed;
    EXPECT_EQ(by_dp ? by_dp->status : "", by_trying_all ? by_trying_all->status : "") << "seed " << seed;
  }
}

TEST(Planner, every_plan_is_optimal_for_its_bottleneck_when_that_is_the_goal) {
  const Profile profile = RandomCase(5).profile(6, false);
  const Cluster cluster = uniform_cluster(1, 3, {0, 50}, {0, 50});
  PlannerRequest request = request_for(profile, cluster);
  request.goal = Goal::bottleneck;
  const PlannerResult result = make_plan(request);
  EXPECT_EQ(result.plan.status, "optimal");
  EXPECT_EQ(result.plan.method, "dp");
  for (const PlanFigures& other : result.plan.runners_up)
    EXPECT_LE(result.plan.figures.bottleneck_s, other.bottleneck_s);
}

TEST(Planner, says_how_many_ranks_have_work) {
  // Traffic so dear that one rank alone is best.
  const Profile profile = even_chain(4, 1000000);
  const Cluster cluster = uniform_cluster(1, 3, {0, 1}, {0, 1});
  const PlannerResult result = make_plan(request_for(profile, cluster));
  EXPECT_EQ(result.plan.figures.workers, 1);
  ASSERT_EQ(program(result.plan, "step").ranks.size(), 3U);
  EXPECT_TRUE(program(result.plan, "step").ranks[2].empty());
  ASSERT_FALSE(result.notes.empty());
  EXPECT_EQ(result.notes[0], "1 of 3 ranks have work");
}

TEST(Planner, gives_every_rank_work_when_exactly_all_are_wanted) {
  const Profile profile = even_chain(4, 1000000);
  const Cluster cluster = uniform_cluster(1, 3, {0, 1}, {0, 1});
  PlannerRequest request = request_for(profile, cluster);
  request.exactly = true;
  EXPECT_EQ(make_plan(request).plan.figures.workers, 3);
  const Profile short_profile = even_chain(2);
  PlannerRequest impossible = request_for(short_profile, cluster);
  impossible.exactly = true;
  expect_refused(impossible, ExitCode::infeasible, "--exactly wants work for each of 3 ranks, but the model has 2");
}

TEST(Planner, fixed_cuts_make_that_plan_and_one_list_stands_for_both) {
  const Profile profile = even_chain(4);
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  PlannerRequest request = request_for(profile, cluster);
  request.forward_cuts = {{1, 3}};
  const Plan joint = make_plan(request).plan;
  EXPECT_EQ(joint.figures.forward_cuts, "1,3");
  EXPECT_EQ(joint.figures.backward_cuts, "1,3");
  EXPECT_EQ(joint.figures.cuts, "joint");
  EXPECT_EQ(joint.figures.bottleneck_s, 6);
  EXPECT_EQ(joint.method, "fixed");
  request.backward_cuts = {{2, 3}};
  const Plan independent = make_plan(request).plan;
  EXPECT_EQ(independent.figures.cuts, "independent");
  EXPECT_EQ(independent.figures.bottleneck_s, 5);  // one forward, two backwards
}

TEST(Planner, refuses_cuts_that_are_none) {
  const Profile profile = even_chain(4);
  const Cluster cluster = uniform_cluster(1, 3, {}, {});
  PlannerRequest request = request_for(profile, cluster);
  const auto expect_usage = [&](const std::vector<int>& forward, const std::vector<int>& backward,
                                const std::string& message) {
    request.forward_cuts = forward;
    request.backward_cuts = backward;
    expect_refused(request, ExitCode::usage, message);
  };
  expect_usage({3, 1}, {1, 3}, "forward cut 1 is not between 3 and the 4 layers");
  expect_usage({1, 5}, {1, 3}, "forward cut 5");
  expect_usage({1, 3}, {-1, 3}, "backward cut -1");
  expect_usage({1}, {1, 3}, "1 forward cuts but 2 backward cuts");
  request.search.cuts = Cuts::joint;
  expect_usage({1, 2}, {1, 3}, "--cuts joint");
  request.forward_cuts = request.backward_cuts = {{1, 2, 3}};
  expect_refused(request, ExitCode::infeasible, "stages for 4 ranks, but the cluster has 3 ranks");
}

TEST(Planner, sequential_runs_on_one_rank_only) {
  const Profile profile = even_chain(3);
  const Cluster one = uniform_cluster(1, 1, {}, {}), two = uniform_cluster(1, 2, {}, {});
  EXPECT_EQ(make_plan(request_for(profile, one, "sequential")).plan.figures.step_s, 4 * 9);
  expect_refused(request_for(profile, two, "sequential"), ExitCode::infeasible, "sequential runs on one rank");
}

TEST(Planner, names_the_rank_that_memory_binds) {
  const Profile profile = even_chain(4, 1 << 30);
  const Cluster cluster = uniform_cluster(1, 2, {}, {}, 1 << 29);
  expect_refused(request_for(profile, cluster, "gpipe"), ExitCode::infeasible,
                 "but has 0.5 GiB (in the least full plan found, gpipe, 4 micro-batches)");
}

TEST(Planner, finds_a_plan_that_fits_by_the_exact_count_alone) {
  const Profile profile = even_chain(6, 1 << 20);
  Cluster cluster = uniform_cluster(1, 3, {0, 1e9}, {0, 1e9});
  PlannerRequest request = request_for(profile, cluster);
  request.search.microbatches = 8;
  request.search.cuts = Cuts::joint;
  const Plan plan = make_plan(request).plan;
  ASSERT_EQ(plan.figures.forward_cuts, "2,4");
  std::int64_t safe_count = 0;
  for (Rank rank = 0; rank < 3; ++rank) {
    cluster.ranks[static_cast<std::size_t>(rank)].memory_bytes = memory_use(plan, rank).total();
    const PartitionCost cost(profile, cluster, "1f1b", 8, false);
    safe_count += cost.load({2 * rank, 2 * rank + 2, 2 * rank, 2 * rank + 2}, {rank, rank, 3}).memory_bytes -
                  memory_use(plan, rank).total();
  }
  ASSERT_GT(safe_count, 0) << "the case must need the exact count";
  EXPECT_EQ(make_plan(request).plan.figures.forward_cuts, "2,4");
}

}  // namespace
}  // namespace sluice
