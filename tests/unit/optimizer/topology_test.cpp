#include "optimizer/solver/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "brute_force.h"
#include "optimizer/import/pipedream.h"
#include "optimizer/solver/pipedream_levels.h"
#include "optimizer/solver/work_graph.h"

namespace sluice {
namespace {

using testing::OwnedProblem;

/// As brute force lists owners. In another order replicas may keep more micro-batches inside nodes.
std::vector<Stage> with_sorted_owners(std::vector<Stage> stages) {
  for (Stage& stage : stages) std::sort(stage.owners.begin(), stage.owners.end());
  return stages;
}

TEST(Topology, plans_of_random_problems_lie_between_bound_and_brute_force_and_are_mostly_best) {
  int feasible = 0, best = 0, proven = 0;
  for (unsigned seed = 0; seed < 2500; ++seed) {
    OwnedProblem owned = testing::random_problem(seed, 5000);
    if (owned.cluster.node_names.size() == 1) continue;
    owned.space.free_backward = false;
    const Problem problem = owned.problem();
    const Solution optimum = testing::brute_force(problem);
    const Solution found = solve_on_nodes(problem, kNoDeadline);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    EXPECT_LE(found.lower_bound, optimum.price * kRounding);
    if (!optimum.found()) {
      EXPECT_FALSE(found.found());
      continue;
    }
    ++feasible;
    if (!found.found()) continue;
    EXPECT_LE(found.lower_bound, found.price * kRounding);
    EXPECT_EQ(price_of(problem, found.stages), found.price);
    EXPECT_GE(price_of(problem, with_sorted_owners(found.stages)) * kRounding, optimum.price);
    best += found.price <= optimum.price * kRounding;
    proven += is_optimal(found);
  }
  std::printf("of %d problems %d solved, %d of them proven\n", feasible, best, proven);
  EXPECT_GT(feasible, 600);
  EXPECT_GT(best, 0.97 * feasible);
  EXPECT_GT(proven, 0.75 * feasible);
}

/// A chain whose layers each read the output before.
struct Chain {
  Profile profile;
  Chain() { profile.split_backward = false; }
  void add(double forward_s, double backward_s, std::int64_t output_bytes, std::int64_t stash_bytes = 0) {
    const LayerId layer = static_cast<LayerId>(profile.model.layers.size());
    Model& model = profile.model;
    if (layer == 0) model.tensors.push_back({.name = "input", .kind = TensorKind::input});
    const TensorId input = layer == 0 ? 0 : last_output_;
    last_output_ = static_cast<TensorId>(model.tensors.size());
    model.layers.emplace_back().name = "layer" + std::to_string(layer);
    model.tensors.push_back({.name = "out" + std::to_string(layer), .producer = layer, .bytes = output_bytes});
    model.tensors.push_back({.name = "aux" + std::to_string(layer),
                             .producer = layer,
                             .kind = TensorKind::auxiliary,
                             .bytes = stash_bytes});
    model.needs.push_back({{input}, {last_output_ + 1}, {}});
    profile.costs.push_back({.forward_s = forward_s, .backward_input_s = backward_s});
  }

 private:
  TensorId last_output_ = 0;
};

std::set<int> nodes_of(const Cluster& cluster, const Stage& stage) {
  std::set<int> nodes;
  for (const Rank rank : stage.owners) nodes.insert(cluster.ranks[at(rank)].node);
  return nodes;
}

TEST(Topology, a_thick_boundary_stays_inside_a_node) {
  Chain chain;
  chain.add(1, 1, 1000);  // takes 10 s on a NIC
  chain.add(1, 1, 10);
  chain.add(1, 1, 0);
  const Cluster cluster = uniform_cluster(2, 2, {0, 1e4}, {0, 1e2});
  const Solution found = solve_on_nodes({chain.profile, cluster, {"1f1b", 4}, {Cuts::joint, 1}}, kNoDeadline);
  ASSERT_TRUE(found.found());
  EXPECT_TRUE(is_optimal(found));
  EXPECT_DOUBLE_EQ(found.price, 2);
  ASSERT_EQ(found.stages.size(), 6U);
  EXPECT_EQ(nodes_of(cluster, found.stages[0]), nodes_of(cluster, found.stages[1]));
  EXPECT_NE(nodes_of(cluster, found.stages[1]), nodes_of(cluster, found.stages[2]));
}

TEST(Topology, cuts_independently_inside_nodes_where_stashes_are_too_thick_for_nics) {
  Chain chain;
  for (int node = 0; node < 2; ++node) {
    chain.add(1, 1, 10, 1000);
    chain.add(2, 2, 10, 1000);
  }
  const Cluster cluster = uniform_cluster(2, 2, {0, 1e4}, {0, 1e2});
  const Pricing pricing{"1f1b", 4};
  const Solution joint = solve_on_nodes({chain.profile, cluster, pricing, {Cuts::joint, 1}}, kNoDeadline);
  EXPECT_DOUBLE_EQ(joint.price, 4);
  const Solution found = solve_on_nodes({chain.profile, cluster, pricing, {Cuts::independent, 1}}, kNoDeadline);
  EXPECT_DOUBLE_EQ(found.price, 3);
  EXPECT_TRUE(is_optimal(found));
  // In each node one rank runs both layers forward and the other backward.
  ASSERT_EQ(found.stages.size(), 4U);
  for (const std::size_t node : {0, 1}) {
    const Stage &forward = found.stages[node], &backward = found.stages[node + 2];
    EXPECT_EQ(forward.layers, backward.layers);
    EXPECT_EQ(forward.layers.size(), 2U);
    EXPECT_NE(forward.owners, backward.owners);
    EXPECT_EQ(nodes_of(cluster, forward), nodes_of(cluster, backward));
  }
}

TEST(Topology, runs_pipelines_in_lockstep_inside_nodes_where_boundaries_are_too_thick_for_nics) {
  Chain chain;
  chain.add(3, 5, 1000);
  chain.add(3, 5, 0);
  const Cluster cluster = uniform_cluster(4, 2, {0, 1e4}, {0, 1e2});
  const Solution found = solve_on_nodes({chain.profile, cluster, {"1f1b", 8}, {Cuts::joint, 4}}, kNoDeadline);
  EXPECT_TRUE(is_optimal(found));
  EXPECT_DOUBLE_EQ(found.price, 2);
  ASSERT_EQ(found.stages.size(), 4U);
  for (const Stage& stage : found.stages) EXPECT_EQ(nodes_of(cluster, stage).size(), 4U);
}

TEST(Topology, spreads_replicas_over_nodes_and_leaves_one_rank_to_the_heavy_weights) {
  Chain chain;
  chain.add(10, 20, 10);
  chain.add(1, 1, 0);
  chain.profile.costs[0].parameter_bytes = 100;
  chain.profile.costs[1].parameter_bytes = 1'000'000;
  const Cluster cluster = uniform_cluster(4, 4, {0, 1e4}, {0, 1e2});
  const Solution found = solve_on_nodes({chain.profile, cluster, {"1f1b", 60}, {Cuts::joint, 16}}, kNoDeadline);
  EXPECT_TRUE(is_optimal(found));
  EXPECT_DOUBLE_EQ(found.price, 2);
  ASSERT_EQ(found.stages.size(), 4U);
  EXPECT_EQ(found.stages[0].owners.size(), 15U);
  EXPECT_EQ(found.stages[1].owners.size(), 1U);
}

TEST(Topology, leaves_out_a_node_whose_nic_costs_more_than_its_ranks_bring) {
  Chain chain;
  chain.add(1, 1, 1000);
  chain.add(1, 1, 1000);
  chain.add(1, 1, 0);
  const Cluster cluster = uniform_cluster(2, 2, {0, 1e6}, {0, 1e2});
  const Solution found = solve_on_nodes({chain.profile, cluster, {"1f1b", 1}, {Cuts::joint, 1}}, kNoDeadline);
  EXPECT_DOUBLE_EQ(found.price, 4);
  for (const Stage& stage : found.stages) EXPECT_EQ(nodes_of(cluster, stage), nodes_of(cluster, found.stages[0]));
}

TEST(Topology, gives_the_heavy_end_to_the_fast_node_in_whatever_place) {
  Chain chain;
  chain.add(1, 1, 10);
  chain.add(1, 1, 10);
  chain.add(4, 4, 10);
  chain.add(4, 4, 10);
  for (const int fast : {0, 1}) {
    Cluster cluster = uniform_cluster(2, 2, {0, 1e4}, {0, 1e2});
    for (RankSpec& rank : cluster.ranks)
      if (rank.node == fast) rank.speed = 4;
    const Solution found = solve_on_nodes({chain.profile, cluster, {"1f1b", 1}, {Cuts::joint, 1}}, kNoDeadline);
    EXPECT_TRUE(is_optimal(found));
    EXPECT_DOUBLE_EQ(found.price, 2);
    EXPECT_EQ(nodes_of(cluster, found.stages[3]), std::set<int>{fast});
  }
}

/// PipeDream's profiles on 4 nodes of 4 ranks, 100 Gb/s inside and 10 Gb/s between.
class TopologyOfProfiles : public ::testing::TestWithParam<const char*> {
 protected:
  Profile profile_ = import_pipedream(std::string("tests/data/pipedream/") + GetParam() + ".graph.txt").profile;
  Cluster cluster_ = uniform_cluster(4, 4, {1e-6, 1.25e10}, {1e-6, 1.25e9});
  Pricing pricing_{"1f1b", 48};

  std::vector<Stage> stages(const std::vector<std::vector<Rank>>& ranks_of_workers) const {
    const int layers = static_cast<int>(profile_.costs.size()), count = static_cast<int>(ranks_of_workers.size());
    std::vector<Worker> workers;
    for (int w = 0; w < count; ++w) {
      Worker worker{{}, ranks_of_workers[at(w)]};
      for (LayerId l = layers * w / count; l < layers * (w + 1) / count; ++l) {
        worker.works.push_back({l, Work::forward});
        worker.works.push_back({l, Work::backward});
      }
      workers.push_back(worker);
    }
    return stages_of(workers);
  }
};

TEST_P(TopologyOfProfiles, no_usual_plan_is_better) {
  const Problem problem{profile_, cluster_, pricing_, {Cuts::joint, 16}};
  const Solution found = solve_on_nodes(problem, kNoDeadline);
  ASSERT_TRUE(found.found());
  EXPECT_LE(found.lower_bound, found.price * kRounding);
  const auto expect_no_better = [&](const std::vector<Stage>& other) {
    EXPECT_LE(found.price, price_of(problem, other) * kRounding);
  };
  std::vector<std::vector<Rank>> all(1), each, across(4);
  for (Rank rank = 0; rank < 16; ++rank) {
    all[0].push_back(rank);
    each.push_back({rank});
    across[at(rank % 4)].push_back(rank);
  }
  expect_no_better(stages(all));     // data parallel
  expect_no_better(stages(each));    // a pipeline through all ranks
  expect_no_better(stages(across));  // one in each node, data parallel between nodes

  Problem pipeline = problem;
  pipeline.space.most_replicas = 1;
  expect_no_better(solve_on_nodes(pipeline, kNoDeadline).stages);
}

TEST_P(TopologyOfProfiles, pipedreams_plans_are_not_better) {
  const Problem problem{profile_, cluster_, pricing_, {Cuts::joint, 16}};
  const Solution found = solve_on_nodes(problem, kNoDeadline);
  const std::vector<PipedreamState> states = pipedream_states(profile_, false);
  const std::vector<PipedreamLevel> levels = pipedream_levels(cluster_);
  for (const bool activations : {false, true}) {
    PipedreamRules rules;
    rules.activations = activations;
    const PipedreamPlan plan = solve_pipedream_levels(states, levels, rules);
    EXPECT_LE(found.price, price_of(problem, stages_from_pipedream(states, plan, levels)) * kRounding);
  }
}

INSTANTIATE_TEST_SUITE_P(Pipedream, TopologyOfProfiles,
                         ::testing::Values("alexnet", "vgg16", "gnmt", "resnet18", "resnet50", "squeezenet1_0"));

}  // namespace
}  // namespace sluice
