#include "optimizer/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/liveness.h"
#include "core/schedule.h"
#include "core/text.h"
#include "core/verifier.h"
#include "optimizer/planner/fixed_stages.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::RandomCase;

PlannerRequest request_for(const Profile& profile, const Cluster& cluster, const std::string& schedule = "1f1b") {
  PlannerRequest request;
  request.profiles = {profile};
  request.cluster = cluster;
  request.schedule = schedule;
  request.microbatches = 4;
  return request;
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
    request.microbatches = random.between(1, 5);
    request.goal = random.chance(0.5) ? Goal::step : Goal::bottleneck;
    request.space.exactly = random.chance(0.3);
    SCOPED_TRACE(text("seed ", seed));
    request.space.cuts = Cuts::joint;
    const auto joint = plan_for(request);
    request.space.cuts = Cuts::independent;
    const auto independent = plan_for(request);
    EXPECT_LE(objective_of(independent, request.goal), objective_of(joint, request.goal));
    infeasible_cases += independent ? 0 : 1;
    gains += objective_of(independent, request.goal) < objective_of(joint, request.goal) ? 1 : 0;
    if (!independent) continue;
    EXPECT_FALSE(verify(*independent));
    EXPECT_GE(independent->figures.workers, request.space.exactly ? ranks : 1);
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
    request.microbatches = random.between(1, 4);
    request.goal = Goal::bottleneck;
    const auto by_dp = plan_for(request);
    request.method = Method::exhaustive;
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

/// Compute only, the layers' costs all in the backward.
double best_joint_bottleneck(const std::vector<double>& seconds, int ranks) {
  Profile profile = even_chain(static_cast<int>(seconds.size()));
  for (std::size_t l = 0; l < seconds.size(); ++l) profile.costs[l] = {.backward_input_s = seconds[l]};
  PlannerRequest request = request_for(profile, uniform_cluster(1, ranks, {}, {}));
  request.space.cuts = Cuts::joint;
  request.compute_only = true;
  return make_plan(request).plan.figures.bottleneck_s;
}

TEST(Planner, balances_what_published_balancers_did_not) {
  EXPECT_EQ(best_joint_bottleneck({1, 4, 2, 2}, 3), 4);
  EXPECT_EQ(best_joint_bottleneck({1, 3, 2, 1, 1, 2}, 4), 3);
  EXPECT_EQ(best_joint_bottleneck(std::vector<double>(38, 1), 8), 5);
  EXPECT_EQ(best_joint_bottleneck(std::vector<double>(30, 1), 4), 8);
  EXPECT_EQ(best_joint_bottleneck({1, 1, 1, 1, 1}, 4), 2);
}

TEST(Planner, prices_traffic_at_every_bandwidth) {
  const Profile profile = even_chain(2, 100);
  const auto bottleneck_at = [&](double bandwidth) {
    PlannerRequest request = request_for(profile, uniform_cluster(1, 2, {0, bandwidth}, {0, bandwidth}));
    request.space.exactly = true;
    return make_plan(request).plan.figures.bottleneck_s;
  };
  EXPECT_EQ(bottleneck_at(1000), 3);
  EXPECT_GT(bottleneck_at(10), 9);
}

TEST(Planner, leaves_a_slow_rank_out) {
  Cluster cluster = uniform_cluster(1, 3, {}, {});
  cluster.ranks[1].speed = 0.01;
  const Plan plan = make_plan(request_for(even_chain(4), cluster)).plan;
  EXPECT_EQ(plan.figures.bottleneck_s, 6);
  EXPECT_TRUE(program(plan, "step").ranks[1].empty());
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
  request.space.exactly = true;
  EXPECT_EQ(make_plan(request).plan.figures.workers, 3);
  const Profile short_profile = even_chain(1);  // two works
  PlannerRequest impossible = request_for(short_profile, cluster);
  impossible.space.exactly = true;
  expect_refused(impossible, ExitCode::infeasible, "--exactly wants work for each of 3 ranks, but the model has 1");
}

PlannerRequest fixed_request(const Profile& profile, const Cluster& cluster, const FixedCuts& cuts) {
  PlannerRequest request = request_for(profile, cluster);
  request.fixed_stages =
      fixed_stages(cuts, static_cast<int>(profile.model.layers.size()), static_cast<int>(cluster.ranks.size()));
  return request;
}

TEST(Planner, fixed_cuts_make_that_plan_and_one_list_stands_for_both) {
  const Profile profile = even_chain(4);
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  const Plan joint = make_plan(fixed_request(profile, cluster, {.forward = {{1, 3}}})).plan;
  EXPECT_EQ(joint.figures.forward_cuts, "1,3");
  EXPECT_EQ(joint.figures.backward_cuts, "1,3");
  EXPECT_EQ(joint.figures.cuts, "joint");
  EXPECT_EQ(joint.figures.bottleneck_s, 6);
  EXPECT_EQ(joint.method, "fixed");
  EXPECT_EQ(joint.status, "feasible");
  const Plan independent = make_plan(fixed_request(profile, cluster, {.forward = {{1, 3}}, .backward = {{2, 3}}})).plan;
  EXPECT_EQ(independent.figures.cuts, "independent");
  EXPECT_EQ(independent.figures.bottleneck_s, 5);  // one forward, two backwards
}

TEST(Planner, fixed_replicas_share_micro_batches) {
  const Profile profile = even_chain(4);
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  const Plan plan = make_plan(fixed_request(profile, cluster, {.forward = {{2}}, .replicas = {{2, 1}}})).plan;
  EXPECT_EQ(plan.figures.replicas, "2,1");
  EXPECT_EQ(plan.figures.bottleneck_s, 6);  // the second worker has half of the layers alone
  EXPECT_EQ(plan.figures.bound_by, "compute of rank 2");
}

TEST(Planner, refuses_cuts_that_are_none) {
  const auto expect_error = [&](const FixedCuts& cuts, ExitCode code, const std::string& message) {
    try {
      (void)fixed_stages(cuts, 4, 3);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), code);
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  expect_error({.forward = {{3, 1}}, .backward = {{1, 3}}}, ExitCode::usage,
               "forward cut 1 is not between 3 and the 4 layers");
  expect_error({.forward = {{1, 5}}}, ExitCode::usage, "forward cut 5");
  expect_error({.forward = {{1, 3}}, .backward = {{-1, 3}}}, ExitCode::usage, "backward cut -1");
  expect_error({.forward = {{1}}, .backward = {{1, 3}}}, ExitCode::usage, "1 forward cuts but 2 backward cuts");
  expect_error({.forward = {{1}}, .weight = {{1, 3}}}, ExitCode::usage, "1 forward cuts but 2 weight cuts");
  expect_error({.forward = {{1}}, .replicas = {{1}}}, ExitCode::usage, "1 cuts make 2 workers");
  expect_error({.forward = {{1}}, .replicas = {{1, 0}}}, ExitCode::usage, "0 replicas");
  expect_error({.weight = {{1}}}, ExitCode::usage, "--forward-cuts");
  expect_error({.forward = {{1, 2, 3}}}, ExitCode::infeasible, "take 4 ranks, but the cluster has 3");
  expect_error({.forward = {{1}}, .replicas = {{2, 2}}}, ExitCode::infeasible, "take 4 ranks");
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

TEST(Planner, says_what_is_needed_with_recomputation_where_that_is_allowed) {
  const Profile profile = even_chain(8, 1 << 30);
  PlannerRequest request = request_for(profile, uniform_cluster(1, 2, {}, {}, 1 << 29), "gpipe");
  request.microbatches = 8;
  const auto needed_gib = [&]() {
    try {
      (void)make_plan(request);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find("with recomputation") != std::string::npos, request.space.recompute) << message;
      return std::stod(message.substr(message.find("needs ") + 6));
    }
    return 0.0;
  };
  const double plain = needed_gib();
  request.space.recompute = true;
  const double least = needed_gib();
  EXPECT_GT(least, 0.5);
  EXPECT_LT(least, plain);
}

TEST(Planner, finds_a_plan_that_fits_by_the_exact_count_alone) {
  const Profile profile = even_chain(6, 1 << 20);
  Cluster cluster = uniform_cluster(1, 3, {0, 1e9}, {0, 1e9});
  PlannerRequest request = request_for(profile, cluster);
  request.microbatches = 8;
  request.space.cuts = Cuts::joint;
  const Plan plan = make_plan(request).plan;
  ASSERT_EQ(plan.figures.forward_cuts, "2,4");
  const Loads safe = loads_of(profile, cluster, plan.stages, {"1f1b", 8});
  std::int64_t safe_count = 0;
  for (Rank rank = 0; rank < 3; ++rank) {
    cluster.ranks[static_cast<std::size_t>(rank)].memory_bytes = memory_use(plan, rank).total();
    safe_count += safe.ranks[static_cast<std::size_t>(rank)].memory_bytes - memory_use(plan, rank).total();
  }
  ASSERT_GT(safe_count, 0) << "the case must need the exact count";
  request.cluster = cluster;
  const Plan tight = make_plan(request).plan;
  EXPECT_EQ(tight.figures.forward_cuts, "2,4");
  EXPECT_GT(tight.lower_bound_s, 0);
  EXPECT_LE(tight.lower_bound_s, tight.figures.bottleneck_s * kRounding);
}

TEST(Planner, calls_nothing_optimal_that_a_plan_beats_which_fits_by_the_exact_count) {
  const Profile profile = even_chain(6, 1 << 20);
  PlannerRequest request = request_for(profile, uniform_cluster(1, 3, {0, 1e9}, {0, 1e9}));
  request.goal = Goal::bottleneck;
  const Plan free = make_plan(request).plan;
  EXPECT_EQ(free.status, "optimal");
  for (const double share : {0.5, 0.7, 0.8, 0.9, 1.0, 1.2}) {
    const auto limit = static_cast<std::int64_t>(share * static_cast<double>(free.figures.peak_memory_bytes));
    request.cluster = uniform_cluster(1, 3, {0, 1e9}, {0, 1e9}, limit);
    const auto limited = plan_for(request);
    if (!limited) continue;
    EXPECT_EQ(limited->lower_bound_s, free.lower_bound_s);
    EXPECT_EQ(limited->status == "optimal", limited->figures.bottleneck_s <= free.figures.bottleneck_s) << share;
  }
}

TEST(Planner, chooses_the_micro_batch_size_by_simulation_at_a_fixed_global_batch) {
  Profile small = even_chain(4), large = even_chain(4);
  small.model.microbatch = 2;
  large.model.microbatch = 8;
  for (LayerCost& cost : large.costs)
    cost = {.forward_s = 3, .backward_input_s = 6};  // less than 4 times the small one
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  PlannerRequest request = request_for(small, cluster);
  request.profiles.push_back(large);
  request.microbatches = {};
  const auto chosen_at = [&](std::int64_t batch) {
    request.global_batch = batch;
    return make_plan(request).plan.figures;
  };
  // 8 samples: 4 small micro-batches take (4 + 3) x 3 s over four ranks, one large one 4 x 9 s.
  EXPECT_EQ(chosen_at(8).microbatch, 2);
  EXPECT_EQ(chosen_at(8).step_s, 7 * 3);
  // 800 samples: the pipeline fills either way, and the large ones are cheaper a sample.
  EXPECT_EQ(chosen_at(800).microbatch, 8);
  EXPECT_EQ(chosen_at(800).microbatches, 100);
  EXPECT_EQ(chosen_at(6).microbatch, 2) << "no number of large ones makes 6";
  request.global_batch = 7;
  expect_refused(request, ExitCode::usage, "no number of micro-batches of 2, 8 samples makes a global batch of 7");
}

TEST(Planner, says_that_recomputation_would_make_it_fit) {
  const Profile profile = even_chain(8, 1 << 30);
  PlannerRequest request = request_for(profile, uniform_cluster(1, 2, {}, {}), "gpipe");
  request.microbatches = 8;
  const Plan plain = make_plan(request).plan;
  request.space.recompute = true;
  request.cluster = uniform_cluster(1, 2, {}, {}, plain.figures.peak_memory_bytes * 3 / 4);
  const Plan saving = make_plan(request).plan;
  EXPECT_GT(saving.figures.recomputed_layers, 0);
  EXPECT_LE(saving.figures.peak_memory_bytes, request.cluster.ranks[0].memory_bytes);
  request.space.recompute = false;
  expect_refused(request, ExitCode::infeasible, "use --recompute");
}

/// One second for each work of each layer.
Profile even_chain_in_thirds(int layers) {
  Profile profile = even_chain(layers);
  for (LayerCost& cost : profile.costs) cost = {.forward_s = 1, .backward_input_s = 1, .backward_weight_s = 1};
  return profile;
}

TEST(Planner, zb_h1_takes_the_papers_step_and_1f1b_a_bubble_three_times_as_long) {
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  const auto step_s = [&](const char* schedule) {
    PlannerRequest request = request_for(even_chain_in_thirds(8), cluster, schedule);
    request.microbatches = 8;
    const Plan plan = make_plan(request).plan;
    EXPECT_FALSE(verify(plan));
    EXPECT_EQ(plan.figures.cuts, "joint");
    EXPECT_TRUE(std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
      return stage.work == (std::string(schedule) == "1f1b" ? Work::backward : Work::backward_weight);
    }));
    return plan.figures.step_s;
  };
  EXPECT_NEAR(step_s("zb-h1"), 8 * 6 + 3 * 2, 1e-6) << "(K-1)(F+B-W) of bubble";
  EXPECT_NEAR(step_s("1f1b"), 8 * 6 + 3 * 6, 1e-6) << "(K-1)(F+B+W) of bubble";
}

TEST(Planner, zb_h1_runs_joint_independent_and_three_cuts) {
  std::map<std::string, int> found;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomCase random(seed);
    Profile profile = random.profile(random.between(2, 7), random.chance(0.5));
    profile.split_backward = true;
    PlannerRequest request = request_for(profile, random.cluster(random.between(1, 4), true), "zb-h1");
    request.space.cuts = static_cast<Cuts>(random.between(0, 2));
    request.space.most_replicas = random.between(1, 2);
    request.microbatches = random.between(1, 6);
    if (const auto plan = plan_for(request)) ++found[plan->figures.cuts];  // verified by the planner
  }
  EXPECT_EQ(found.size(), 3U) << "one kind of cuts never wins";
}

TEST(Planner, zb_h1_needs_a_profile_that_tells_the_halves_of_backward_apart) {
  Profile profile = even_chain(4);
  profile.split_backward = false;
  expect_refused(request_for(profile, uniform_cluster(1, 2, {}, {}), "zb-h1"), ExitCode::infeasible,
                 "runs backward-input and backward-weight apart");
}

TEST(Planner, places_the_positions_of_schedules_that_say_where) {
  for (const char* schedule : {"interleaved-1f1b", "chimera", "zb-v"}) {
    PlannerRequest request = request_for(even_chain(8), uniform_cluster(1, 4, {}, {}), schedule);
    const double step_s = make_plan(request).plan.figures.step_s;
    request.goal = Goal::bottleneck;
    const Plan plan = make_plan(request).plan;
    EXPECT_FALSE(verify(plan)) << schedule;
    EXPECT_LE(step_s, plan.figures.step_s) << schedule;
    EXPECT_EQ(plan.status, "optimal") << schedule;
    EXPECT_EQ(plan.figures.bottleneck_s, 6) << schedule << ": two layers a rank";
  }
}

TEST(Planner, independent_cuts_are_never_worse_under_placed_schedules) {
  int gains = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomCase random(seed);
    const Profile profile = random.profile(random.between(2, 8), true);
    const Cluster cluster = random.cluster(2 * random.between(1, 2), random.chance(0.7));
    PlannerRequest request = request_for(profile, cluster, random.chance(0.5) ? "chimera" : "interleaved-1f1b");
    request.chunks = random.between(1, 3);
    request.goal = random.chance(0.5) ? Goal::step : Goal::bottleneck;
    SCOPED_TRACE(text("seed ", seed));
    request.space.cuts = Cuts::joint;
    const auto joint = plan_for(request);
    request.space.cuts = Cuts::independent;
    const auto independent = plan_for(request);
    ASSERT_TRUE(joint && independent);
    EXPECT_LE(objective_of(independent, request.goal), objective_of(joint, request.goal));
    EXPECT_GE(independent->figures.bottleneck_s, independent->lower_bound_s * (1 - 1e-9));
    gains += objective_of(independent, request.goal) < objective_of(joint, request.goal) ? 1 : 0;
  }
  EXPECT_GT(gains, 5);
}

TEST(Planner, refuses_what_placed_schedules_lack) {
  PlannerRequest request = request_for(even_chain(8), uniform_cluster(1, 4, {}, {}), "interleaved-1f1b");
  request.space.most_replicas = 2;
  expect_refused(request, ExitCode::infeasible, "--replicas");
  request.space = {};
  request.space.recompute = true;
  expect_refused(request, ExitCode::infeasible, "--recompute");
  expect_refused(request_for(even_chain(8), uniform_cluster(1, 3, {}, {}), "chimera"), ExitCode::infeasible,
                 "even number of ranks");
}

TEST(FixedStages, lie_where_the_schedule_has_them) {
  const std::vector<int> cuts{1, 2, 3, 4, 5};
  const auto owners = [&](const char* schedule, int ranks, int chunks) {
    std::vector<std::vector<Rank>> owners;
    for (const Stage& stage : fixed_stages({.forward = cuts}, 6, ranks, schedule_named(schedule), chunks))
      if (stage.work == Work::backward) owners.push_back(stage.owners);
    return owners;
  };
  using Owners = std::vector<std::vector<Rank>>;
  EXPECT_EQ(owners("interleaved-1f1b", 4, 2), (Owners{{0}, {1}, {2}, {0}, {1}, {2}}));
  EXPECT_EQ(owners("interleaved-1f1b", 2, 3), (Owners{{0}, {1}, {0}, {1}, {0}, {1}}));
  EXPECT_EQ(owners("zb-v", 3, 2), (Owners{{0}, {1}, {2}, {2}, {1}, {0}}));
  EXPECT_EQ(owners("chimera", 6, 2), (Owners{{0, 5}, {1, 4}, {2, 3}, {3, 2}, {4, 1}, {5, 0}}));
  EXPECT_THROW((void)owners("interleaved-1f1b", 6, 4), Error) << "six positions are no multiple of four";
  EXPECT_THROW((void)owners("zb-v", 2, 2), Error) << "six positions want three ranks";
}

}  // namespace
}  // namespace sluice
