#include "core/stage_pricing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "optimizer/schedule/build_plan.h"
#include "random_workers.h"

namespace sluice {
namespace {

using namespace testing;

/// Two layers in a row, `a` makes 100 bytes that `b` reads forward and backward.
Profile two_layers() {
  Profile profile;
  profile.model.layers.resize(2);
  profile.model.tensors = {{.name = "input", .kind = TensorKind::input, .bytes = 7},
                           {.name = "out_a", .producer = 0, .bytes = 100},
                           {.name = "out_b", .producer = 1, .bytes = 30}};
  profile.model.needs.resize(2);
  profile.model.needs[0].forward = {0};
  profile.model.needs[1].forward = profile.model.needs[1].backward_weight = {1};
  profile.costs = {{.forward_s = 1, .backward_input_s = 2, .backward_weight_s = 3, .update_s = 4, .parameter_bytes = 8},
                   {.forward_s = 5, .backward_input_s = 6, .backward_weight_s = 7, .parameter_bytes = 24}};
  return profile;
}

Cluster nodes(const std::vector<int>& node_of_rank) {
  Cluster cluster = uniform_cluster(3, 1, {0, 100}, {0, 10});
  cluster.ranks.clear();
  for (const int node : node_of_rank) cluster.ranks.push_back({.node = node});
  return cluster;
}

void expect_rank(const Loads& loads, Rank rank, double received, double sent) {
  EXPECT_DOUBLE_EQ(loads.ranks[at(rank)].received_bytes, received) << "rank " << rank;
  EXPECT_DOUBLE_EQ(loads.ranks[at(rank)].sent_bytes, sent) << "rank " << rank;
}
void expect_node(const Loads& loads, int node, double received, double sent) {
  EXPECT_DOUBLE_EQ(loads.nodes[at(node)].received_bytes, received) << "node " << node;
  EXPECT_DOUBLE_EQ(loads.nodes[at(node)].sent_bytes, sent) << "node " << node;
}

std::vector<Stage> pipeline(const std::vector<Rank>& first, const std::vector<Rank>& second) {
  return {{Work::forward, 0, {0}, first},
          {Work::forward, 1, {1}, second},
          {Work::backward, 0, {0}, first},
          {Work::backward, 1, {1}, second}};
}

TEST(StagePricing, ranks_of_one_node_use_their_own_links) {
  const Loads loads = loads_of(two_layers(), nodes({0, 0}), pipeline({0}, {1}), {"1f1b", 4});
  expect_rank(loads, 0, 100, 100);
  expect_rank(loads, 1, 100, 100);
  expect_node(loads, 0, 0, 0);
  EXPECT_DOUBLE_EQ(loads.ranks[0].compute_s, 1 + 2 + 3 + 4.0 / 4);
  EXPECT_DOUBLE_EQ(loads.ranks[1].compute_s, 5 + 6 + 7);
}

TEST(StagePricing, ranks_of_a_node_share_its_nic) {
  // Two replicas of each layer: two ranks send through one NIC, micro-batches 0 and 2, 1 and 3.
  const Loads loads = loads_of(two_layers(), nodes({0, 0, 1, 1}), pipeline({0, 1}, {2, 3}), {"1f1b", 4});
  expect_node(loads, 0, 100, 100);
  expect_node(loads, 1, 100, 100);
  expect_rank(loads, 0, 8.0 / 4, 8.0 / 4);  // all-reduce of two: each sends half twice
  expect_rank(loads, 3, 24.0 / 4, 24.0 / 4);
  EXPECT_DOUBLE_EQ(loads.ranks[1].compute_s, 6.0 / 2 + 4.0 / 4) << "every replica updates its copy";
}

TEST(StagePricing, replicas_without_a_full_share_of_micro_batches_do_less) {
  const Loads loads = loads_of(two_layers(), nodes({0, 0, 0}), pipeline({0, 1}, {2}), {"1f1b", 3});
  EXPECT_DOUBLE_EQ(loads.ranks[0].compute_s, 6 * 2.0 / 3 + 4.0 / 3);
  EXPECT_DOUBLE_EQ(loads.ranks[1].compute_s, 6 * 1.0 / 3 + 4.0 / 3);
  expect_rank(loads, 2, 100, 100);
}

TEST(StagePricing, a_tensor_enters_a_node_once_and_its_lowest_rank_passes_it_on) {
  // Forward and backward of b on two ranks of another node: both need out_a.
  const std::vector<Stage> stages{{Work::forward, 0, {0}, {0}},
                                  {Work::backward, 0, {0}, {0}},
                                  {Work::forward, 1, {1}, {2}},
                                  {Work::backward, 2, {1}, {1}}};
  const Loads loads = loads_of(two_layers(), nodes({0, 1, 1}), stages, {"1f1b", 4});
  expect_node(loads, 0, 100, 100);
  expect_node(loads, 1, 100, 100);           // out_a; its gradient
  expect_rank(loads, 1, 0, 100 + 24.0 / 4);  // out_a passed on, the weights of b
  expect_rank(loads, 2, 100 + 24.0 / 4, 0);
}

TEST(StagePricing, a_rank_that_makes_a_tensor_again_does_not_need_it) {
  // Backward of both layers on rank 1, which makes out_a again.
  std::vector<Stage> stages{{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 1, {0, 1}, {1}}};
  const double weights = 32.0 / 4;
  expect_rank(loads_of(two_layers(), nodes({0, 0}), stages, {"1f1b", 4}), 1, 100, weights);
  stages.push_back({Work::recompute, 1, {0}, {1}});
  const Loads loads = loads_of(two_layers(), nodes({0, 0}), stages, {"1f1b", 4});
  expect_rank(loads, 0, weights, 0);
  expect_rank(loads, 1, 0, weights);
  EXPECT_DOUBLE_EQ(loads.ranks[1].compute_s, 5 + 13 + 4.0 / 4 + 1);
}

TEST(StagePricing, what_a_forward_needs_comes_even_where_it_is_made_again) {
  const std::vector<Stage> stages{{Work::forward, 0, {0}, {0}},
                                  {Work::forward, 1, {1}, {1}},
                                  {Work::backward, 1, {0, 1}, {1}},
                                  {Work::recompute, 1, {0}, {1}}};
  expect_rank(loads_of(two_layers(), nodes({0, 0}), stages, {"1f1b", 4}), 1, 100, 8.0 / 4);
}

TEST(StagePricing, weights_come_from_an_owner_on_the_own_node) {
  // Layer a is updated on ranks 0 (node 0) and 2 (node 1), and runs forward on 1 (node 0), 3 (node 1) and 4 (node 2).
  const std::vector<Stage> stages{{Work::forward, 0, {0}, {1, 3, 4}},
                                  {Work::backward, 0, {0}, {0, 2}},
                                  {Work::forward, 1, {1}, {5}},
                                  {Work::backward, 1, {1}, {5}}};
  Profile profile = two_layers();
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 0;
  const Loads loads = loads_of(profile, nodes({0, 0, 1, 1, 2, 2}), stages, {"1f1b", 1});
  const double reduced = 8;     // 2 (r-1)/r of it, over both NICs
  expect_rank(loads, 0, 0, 8);  // to rank 1
  expect_rank(loads, 1, 8, 0);
  expect_rank(loads, 2, 0, 8);  // to rank 3
  expect_rank(loads, 3, 8, 0);
  expect_node(loads, 0, reduced, reduced + 8);  // and to node 2
  expect_node(loads, 1, reduced, reduced);
  expect_node(loads, 2, 8, 0);
}

TEST(StagePricing, gradients_are_summed_in_a_ring_over_the_nodes) {
  // Owners on nodes 0, 1, 0: the ring is 0, 2, 1.
  std::vector<Stage> stages = pipeline({0, 1, 2}, {3});
  Profile profile = two_layers();
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 0;
  const Loads loads = loads_of(profile, nodes({0, 1, 0, 2}), stages, {"1f1b", 2});
  const double bytes = 2 * 2.0 / 3 * 8 / 2;
  expect_rank(loads, 0, 0, bytes);
  expect_rank(loads, 2, bytes, 0);
  expect_node(loads, 0, bytes, bytes);
  expect_node(loads, 1, bytes, bytes);
}

TEST(StagePricing, a_gradient_wanted_by_both_backward_works_is_made_once) {
  const std::vector<Stage> stages{{Work::forward, 0, {0}, {0}},        {Work::forward, 1, {1}, {1}},
                                  {Work::backward_input, 0, {0}, {0}}, {Work::backward_weight, 2, {0}, {2}},
                                  {Work::backward_input, 1, {1}, {1}}, {Work::backward_weight, 1, {1}, {1}}};
  const Loads together = loads_of(two_layers(), nodes({0, 0, 0}), stages, {"1f1b", 8});
  expect_rank(together, 1, 100, 100);
  expect_rank(together, 0, 100 + 1, 100);
  expect_rank(together, 2, 100, 1);
  const Loads apart = loads_of(two_layers(), nodes({0, 1, 0}), stages, {"1f1b", 8});
  expect_node(apart, 0, 100, 100);
  expect_rank(apart, 0, 1, 100);  // passes the gradient on
  expect_rank(apart, 2, 100, 1);
}

TEST(StagePricing, the_bottleneck_names_the_busiest_resource) {
  Cluster cluster = nodes({0, 0, 1, 1});
  const Pricing pricing{"1f1b", 4};
  Loads loads;
  loads.ranks.resize(4);
  loads.nodes.resize(2);
  const auto expect = [&](double seconds, Resource resource, int where) {
    const Bottleneck found = bottleneck(cluster, loads, pricing);
    EXPECT_DOUBLE_EQ(found.seconds, seconds);
    EXPECT_EQ(found.resource, resource);
    EXPECT_EQ(found.where, where);
  };
  loads.ranks[2].compute_s = 3;
  expect(3, Resource::compute, 2);
  loads.ranks[1].sent_bytes = 400;
  expect(4, Resource::rank_link, 1);
  loads.nodes[1].received_bytes = 50;
  expect(5, Resource::nic, 1);
  EXPECT_DOUBLE_EQ(bottleneck(cluster, loads, {"1f1b", 4, true}).seconds, 3) << "links are free";
  cluster.ranks[3].memory_bytes = 9;
  loads.ranks[3].memory_bytes = 10;
  expect(std::numeric_limits<double>::infinity(), Resource::memory, 3);
}

TEST(StagePricing, stashes_follow_the_schedule_and_the_ranks_behind) {
  EXPECT_EQ(microbatches_in_flight({"gpipe", 8}, 1), 8);
  EXPECT_EQ(microbatches_in_flight({"1f1b", 8}, 4), 4);
  EXPECT_EQ(microbatches_in_flight({"1f1b", 2}, 4), 2);
  EXPECT_EQ(microbatches_in_flight({"sequential", 8}, 1), 1);
  EXPECT_EQ(replicas_by_position(pipeline({0, 1}, {2})), (std::map<int, int>{{0, 2}, {1, 1}}));
  EXPECT_EQ(replicas_by_position({{Work::forward, 0, {0}, {0}}, {Work::backward, 0, {0}, {1, 2}}}),
            (std::map<int, int>{{0, 2}}));
  EXPECT_EQ(replicas_by_position({{Work::forward, 7, {0}, {0}}, {Work::backward, 3, {0}, {1, 2}}}),
            (std::map<int, int>{{3, 2}, {7, 1}}));
}

/// Who makes and who needs something, for one micro-batch.
struct Flow {
  std::vector<bool> makes, needs;
};

/// The definition, one rank and one border at a time.
void add_flow(const Cluster& cluster, const Flow& flow, double bytes, Loads& loads) {
  const int ranks = static_cast<int>(cluster.ranks.size());
  const auto any = [&](const std::vector<bool>& of, const auto& condition) {
    for (Rank r = 0; r < ranks; ++r)
      if (of[at(r)] && condition(r)) return true;
    return false;
  };
  for (int node = 0; node < std::ssize(loads.nodes); ++node) {
    const auto inside = [&](Rank r) { return cluster.ranks[at(r)].node == node; };
    const auto outside = [&](Rank r) { return !inside(r); };
    const bool comes = any(flow.makes, outside) && any(flow.needs, inside);
    if (comes) loads.nodes[at(node)].received_bytes += bytes;
    if (any(flow.makes, inside) && any(flow.needs, outside)) loads.nodes[at(node)].sent_bytes += bytes;
    for (Rank r = 0; r < ranks; ++r) {
      if (!inside(r)) continue;
      const auto other = [&](Rank o) { return inside(o) && o != r; };
      const bool leader = comes && flow.needs[at(r)] && !any(flow.needs, [&](Rank o) { return inside(o) && o < r; });
      if (flow.needs[at(r)] && (any(flow.makes, other) || (comes && !leader)))
        loads.ranks[at(r)].received_bytes += bytes;
      if (any(flow.needs, other) && (flow.makes[at(r)] || leader)) loads.ranks[at(r)].sent_bytes += bytes;
    }
  }
}

bool lists(const std::vector<int>& list, int value) { return std::find(list.begin(), list.end(), value) != list.end(); }

template <typename AnyLoads, typename Visit>
void for_each_traffic(AnyLoads& loads, const Visit& visit) {
  const auto both = [&](auto& load) {
    visit(load.received_bytes);
    visit(load.sent_bytes);
  };
  std::for_each(loads.ranks.begin(), loads.ranks.end(), both);
  std::for_each(loads.nodes.begin(), loads.nodes.end(), both);
}

void expect_equal_traffic(const Loads& counted, const Loads& defined, unsigned seed) {
  std::vector<double> left, right;
  for_each_traffic(counted, [&](double bytes) { left.push_back(bytes); });
  for_each_traffic(defined, [&](double bytes) { right.push_back(bytes); });
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-9) << "seed " << seed;
}

/// Of one micro-batch; asks rank by rank what it does with each tensor.
void add_traffic_by_definition(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages, int m,
                               Loads& loads) {
  const Model& model = profile.model;
  const auto runs = [&](Rank rank, LayerId layer, std::initializer_list<Work> works) {
    for (const Stage& stage : stages)
      for (const Work work : works)
        if (stage.work == work && lists(stage.layers, layer) && owner(stage, m) == rank) return true;
    return false;
  };
  for (TensorId t = 0; t < std::ssize(model.tensors); ++t) {
    const Tensor& tensor = model.tensors[at(t)];
    if (tensor.producer == kDataset) continue;
    Flow activation, gradient;
    for (Rank r = 0; r < std::ssize(cluster.ranks); ++r) {
      bool for_forward = false, for_backward = false, summand = false;
      for (LayerId l = 0; l < std::ssize(model.layers); ++l) {
        const LayerNeeds& needs = model.needs[at(l)];
        const bool input = runs(r, l, {Work::backward, Work::backward_input});
        const bool weight = runs(r, l, {Work::backward, Work::backward_weight});
        if (lists(needs.forward, t)) {
          for_forward |= runs(r, l, {Work::forward});
          for_backward |= runs(r, l, {Work::recompute});
          summand |= input;
        }
        for_backward |= (lists(needs.backward_input, t) && input) || (lists(needs.backward_weight, t) && weight);
      }
      activation.makes.push_back(runs(r, tensor.producer, {Work::forward}));
      activation.needs.push_back(for_forward || (for_backward && !runs(r, tensor.producer, {Work::recompute})));
      gradient.makes.push_back(summand && tensor.kind == TensorKind::output);
      gradient.needs.push_back(runs(r, tensor.producer, {Work::backward, Work::backward_input, Work::backward_weight}));
    }
    add_flow(cluster, activation, static_cast<double>(tensor.bytes), loads);
    add_flow(cluster, gradient, static_cast<double>(tensor.bytes), loads);
  }
}

TEST(StagePricing, counts_traffic_as_defined_on_any_cluster) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomCase random(seed);
    Profile profile = random.profile(random.between(1, 7), random.chance(0.3));
    for (LayerCost& cost : profile.costs) cost.parameter_bytes = 0;  // what happens once a step has its own tests
    const auto cuts = static_cast<RandomCuts>(random.between(0, 2));
    const auto workers = random_workers(random, profile.model, cuts, 4, 3, random.chance(0.5));
    const int ranks = rank_count(workers);
    Cluster cluster = nodes(std::vector<int>(at(ranks), 0));
    for (RankSpec& rank : cluster.ranks) rank.node = random.between(0, 2);
    std::vector<Stage> stages = stages_of_random(workers);
    if (random.chance(0.5))  // owners that differ between the works of a worker
      for (Stage& stage : stages)
        if (stage.work == Work::forward && stage.owners.size() > 1) stage.owners.pop_back();
    const int microbatches = random.between(1, 9);
    const Loads loads = loads_of(profile, cluster, stages, {"1f1b", microbatches});
    Loads expected = loads;
    for_each_traffic(expected, [](double& bytes) { bytes = 0; });
    for (int m = 0; m < microbatches; ++m) add_traffic_by_definition(profile, cluster, stages, m, expected);
    for_each_traffic(expected, [&](double& bytes) { bytes /= microbatches; });
    expect_equal_traffic(loads, expected, seed);
  }
}

/// What the "step" program moves, per micro-batch; a multicast leaves its root once.
Loads traffic_of_program(const Plan& plan) {
  Loads loads;
  loads.ranks.resize(plan.cluster.ranks.size());
  loads.nodes.resize(plan.cluster.node_names.size());
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
    NodeLoad& load = loads.nodes[at(plan.cluster.ranks[at(rank)].node)];
    for (const Instruction& instruction : program(plan, "step").ranks[at(rank)]) {
      if (instruction.op != Op::multicast_start && instruction.op != Op::all_reduce_start) continue;
      const Transfer& transfer = plan.transfers[at(instruction.transfer)];
      const Group& group = plan.groups[at(transfer.group)];
      const auto members = static_cast<double>(group.members.size());
      const double bytes = static_cast<double>(transfer.bytes) / plan.microbatches;
      const bool sums = instruction.op == Op::all_reduce_start;
      if (sums || group.root == rank) load.sent_bytes += sums ? 2 * (members - 1) / members * bytes : bytes;
      if (sums || group.root != rank) load.received_bytes += sums ? 2 * (members - 1) / members * bytes : bytes;
    }
  }
  return loads;
}

TEST(StagePricing, a_chains_plan_moves_the_bytes_that_are_priced) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomCase random(seed);
    const Profile profile = random.profile(random.between(1, 9), true);
    const auto cuts = static_cast<RandomCuts>(random.between(0, 2));
    const auto workers = random_workers(random, profile.model, cuts, 5, 3, random.chance(0.5));
    const Cluster cluster = uniform_cluster(rank_count(workers), 1, {}, {});
    const Pricing pricing{random.chance(0.7) ? "1f1b" : "gpipe", random.between(1, 9)};
    const std::vector<Stage> stages = stages_of_random(workers);
    const Plan plan = build_plan({profile, cluster, pricing.schedule, pricing.microbatches, stages});
    expect_equal_traffic(loads_of(profile, cluster, stages, pricing), traffic_of_program(plan), seed);
  }
}

}  // namespace
}  // namespace sluice
