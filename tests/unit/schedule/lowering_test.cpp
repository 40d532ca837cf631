#include "optimizer/schedule/lowering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

using examples::cells;

Plan build(int layers, const std::string& schedule, int microbatches, const Partition& partition, int ranks) {
  const Profile profile = examples::chain(layers, 1e-9, 2e-9);
  const Cluster cluster = uniform_cluster(1, ranks, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = stages_of(partition)});
}

TEST(Lowering, adds_loads_alone_on_one_rank) {
  const Plan plan = build(3, "sequential", 2, {{0, 3}, {0, 3}}, 1);
  EXPECT_EQ(cells(plan, "step", 0), "X0 Y0 0F0 0B0 X1 Y1 0F1 0B1 U0");
  EXPECT_EQ(cells(plan, "evaluate", 0), "X0 Y0 0F0 X1 Y1 0F1");
  EXPECT_TRUE(plan.transfers.empty());
}

TEST(Lowering, joins_two_workers_by_an_activation_and_a_gradient) {
  const Plan plan = build(2, "1f1b", 2, {{0, 1, 2}, {0, 1, 2}}, 3);
  EXPECT_EQ(cells(plan, "step", 0), "+T1.0 X0 0F0 +T0.0 +T1.1 X1 0F1 +T0.1 -T0.0 -T1.0 0B0 -T0.1 -T1.1 0B1 U0");
  EXPECT_EQ(cells(plan, "step", 1), "+T0.0 +T0.1 Y0 -T0.0 1F0 1B0 +T1.0 Y1 -T0.1 1F1 -T1.0 1B1 +T1.1 U1 -T1.1");
  EXPECT_EQ(cells(plan, "step", 2), "") << "an unused rank has nothing to do";
}

TEST(Lowering, sends_updated_weights_of_displaced_layers_to_their_forward_owner) {
  const Plan plan = build(2, "gpipe", 1, {{0, 2, 2}, {0, 1, 2}}, 2);  // layer 1: forward at 0, backward at 1
  const auto weights = std::find_if(plan.transfers.begin(), plan.transfers.end(),
                                    [](const Transfer& t) { return t.payload == Payload::weights; });
  ASSERT_NE(weights, plan.transfers.end());
  EXPECT_EQ(weights->layer, 1);
  EXPECT_EQ(weights->bytes, 40);
  EXPECT_EQ(plan.groups[at(weights->group)].root, 1);
  EXPECT_EQ(plan.groups[at(weights->group)].members, (std::vector<Rank>{0, 1}));
}

Plan build(const Profile& profile, const Cluster& cluster, int microbatches, std::vector<Stage> stages) {
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = "gpipe",
                     .microbatches = microbatches,
                     .stages = std::move(stages)});
}

TEST(Lowering, replicas_sum_gradients_behind_their_last_backward_and_in_front_of_the_update) {
  const Plan plan = build(examples::chain(2, 1e-9, 2e-9), uniform_cluster(1, 2, {}, {}), 3,
                          {{Work::forward, 0, {0, 1}, {0, 1}}, {Work::backward, 0, {0, 1}, {0, 1}}});
  EXPECT_EQ(cells(plan, "step", 0), "X0 Y0 0F0 X2 Y2 0F2 0B0 0B2 +T0 +T1 -T0 -T1 U0");
  EXPECT_EQ(cells(plan, "step", 1), "X1 Y1 0F1 0B1 +T0 +T1 -T0 -T1 U0");
  ASSERT_EQ(plan.transfers.size(), 2U);
  EXPECT_EQ(
      plan.transfers[0],
      (Transfer{
          .payload = Payload::weight_gradients, .layer = 0, .group = 0, .bytes = 40, .route = {Algorithm::ring}}));
  EXPECT_EQ(plan.groups[0].members, (std::vector<Rank>{0, 1}));
}

TEST(Lowering, an_owner_on_the_readers_own_node_sends_it_the_weights) {
  Cluster cluster = uniform_cluster(3, 2, {}, {});
  const Plan plan = build(examples::chain(1, 1e-9, 2e-9), cluster, 4,
                          {{Work::forward, 0, {0}, {1, 3, 4, 5}}, {Work::backward, 0, {0}, {0, 2}}});
  std::set<std::vector<Rank>> groups;  // root first
  for (const Transfer& transfer : plan.transfers)
    if (transfer.payload == Payload::weights) {
      std::vector<Rank> ranks{plan.groups[at(transfer.group)].root};
      for (const Rank member : plan.groups[at(transfer.group)].members)
        if (member != ranks.front()) ranks.push_back(member);
      groups.insert(ranks);
    }
  EXPECT_EQ(groups, (std::set<std::vector<Rank>>{{0, 1, 4, 5}, {2, 3}}));
}

TEST(Lowering, what_a_rank_recomputes_is_not_sent_to_it) {
  const Profile profile = examples::chain(2, 1e-9, 2e-9);
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  std::vector<Stage> stages{{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 0, {0, 1}, {1}}};
  const auto activations = [&](const std::vector<Stage>& with) {
    std::set<TensorId> sent;
    for (const Transfer& transfer : build(profile, cluster, 2, with).transfers)
      if (transfer.payload == Payload::activation) sent.insert(transfer.tensor);
    return sent;
  };
  // Tensors: input, labels, out0, aux0, out1, aux1.
  EXPECT_EQ(activations(stages), (std::set<TensorId>{2, 3, 5}));
  stages.push_back({Work::recompute, 0, {0}, {1}});
  EXPECT_EQ(activations(stages), (std::set<TensorId>{5})) << "the input comes from the dataset";
  stages.back().layers = {1};
  EXPECT_EQ(activations(stages), (std::set<TensorId>{2, 3})) << "layer 1 reads out0";
}

TEST(Lowering, both_halves_of_a_backward_get_the_gradient_in_one_multicast) {
  const Plan plan = build(examples::chain(2, 1e-9, 2e-9), uniform_cluster(1, 3, {}, {}), 1,
                          {{Work::forward, 0, {0, 1}, {0}},
                           {Work::backward_input, 0, {0}, {0}},
                           {Work::backward_input, 1, {1}, {1}},
                           {Work::backward_weight, 0, {0, 1}, {2}}});
  const auto gradient = std::find_if(plan.transfers.begin(), plan.transfers.end(),
                                     [](const Transfer& t) { return t.payload == Payload::gradient; });
  ASSERT_NE(gradient, plan.transfers.end());
  EXPECT_EQ(gradient->tensor, 2) << "out0";
  EXPECT_EQ(plan.groups[at(gradient->group)], (Group{.root = 1, .members = {0, 1, 2}}));
}

TEST(Lowering, moves_each_value_in_one_multicast_to_all_its_readers) {
  // Layer 0's output goes to worker 1 (forward) and worker 2 (backward of layers 0 and 1).
  const Plan plan = build(2, "gpipe", 3, {{0, 1, 2, 2}, {0, 0, 0, 2}}, 3);
  const TensorId out0 = 2;
  ASSERT_EQ(plan.profile.model.tensors[at(out0)].name, "out0");
  std::set<std::vector<Rank>> members;
  for (const Instruction& instruction : program(plan, "step").ranks[0])
    if (instruction.op == Op::multicast_start) {
      const Transfer& transfer = plan.transfers[at(instruction.transfer)];
      if (transfer.payload == Payload::activation && transfer.tensor == out0)
        members.insert(plan.groups[at(transfer.group)].members);
    }
  EXPECT_EQ(members, (std::set<std::vector<Rank>>{{0, 1, 2}}));
  EXPECT_EQ(cells(plan, "evaluate", 2), "") << "evaluation sends nothing to backward owners";
}

TEST(Lowering, transfers_tensors_without_bytes_too) {
  Profile profile = examples::chain(2, 1e-9, 1e-9);
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 0;
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  const Plan plan = build_plan({.profile = profile,
                                .cluster = cluster,
                                .schedule = "1f1b",
                                .microbatches = 2,
                                .stages = stages_of(examples::even_partition(2, 2))});
  EXPECT_EQ(plan.transfers.size(), 2U);
}

TEST(Lowering, loads_once_for_forward_and_backward_of_a_rank) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Plan plan = examples::random_plan(seed);
    for (const Program& program : plan.programs)
      for (const auto& list : program.ranks) {
        std::map<std::pair<Op, int>, int> loads;
        for (const Instruction& instruction : list)
          if (instruction.op == Op::load_input || instruction.op == Op::load_labels)
            ++loads[std::pair(instruction.op, instruction.microbatch)];
        for (const auto& [load, times] : loads) ASSERT_EQ(times, 1) << "seed " << seed;
      }
  }
}

int count(const Plan& plan, Rank rank, Op op) {
  const auto& list = program(plan, "step").ranks[at(rank)];
  return static_cast<int>(
      std::count_if(list.begin(), list.end(), [&](const Instruction& instruction) { return instruction.op == op; }));
}

TEST(BuildPlan, runs_every_stage_for_every_microbatch) {
  const Plan plan = build(4, "1f1b", 5, {{0, 2, 2, 4}, {0, 0, 1, 4}}, 3);
  EXPECT_EQ(count(plan, 0, Op::forward), 5);
  EXPECT_EQ(count(plan, 0, Op::backward), 0);
  EXPECT_EQ(count(plan, 0, Op::optimizer_step), 0);
  EXPECT_EQ(count(plan, 1, Op::forward), 0);
  EXPECT_EQ(count(plan, 1, Op::backward), 5);
  EXPECT_EQ(count(plan, 2, Op::forward), 5);
  EXPECT_EQ(count(plan, 2, Op::backward), 5);
  EXPECT_EQ(count(plan, 2, Op::optimizer_step), 1);
}

TEST(BuildPlan, frees_the_links_when_only_compute_counts) {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(2, 1, {1e-6, 1e9}, {1e-5, 1e8}, 1 << 20);
  PlanRequest request{.profile = profile,
                      .cluster = cluster,
                      .schedule = "1f1b",
                      .microbatches = 2,
                      .stages = stages_of(examples::even_partition(2, 2))};
  EXPECT_EQ(build_plan(request).cluster, cluster);
  request.compute_only = true;
  const Plan plan = build_plan(request);
  EXPECT_EQ(plan.cluster.inter_node, LinkClass{});
  EXPECT_EQ(plan.cluster.intra_node, LinkClass{});
  EXPECT_EQ(plan.cluster.ranks, cluster.ranks);
}

TEST(BuildPlan, refuses_what_it_cannot_build) {
  const auto code = [](const std::string& schedule, int microbatches, const Partition& partition, int ranks) {
    try {
      (void)build(4, schedule, microbatches, partition, ranks);
    } catch (const Error& error) {
      return error.exit_code();
    }
    return ExitCode::done;
  };
  EXPECT_EQ(code("gpipe", 1, {{0, 2, 4}, {0, 2, 4}}, 2), ExitCode::done);
  EXPECT_EQ(code("gpipe", 1, {{0, 2, 4}, {0, 2, 4}}, 1), ExitCode::infeasible);
  EXPECT_EQ(code("sequential", 1, {{0, 2, 4}, {0, 2, 4}}, 2), ExitCode::infeasible);
  EXPECT_EQ(code("zigzag", 1, {{0, 2, 4}, {0, 2, 4}}, 2), ExitCode::bad_input);
  EXPECT_EQ(code("gpipe", 0, {{0, 2, 4}, {0, 2, 4}}, 2), ExitCode::bad_input);
  EXPECT_EQ(code("gpipe", 1, {{0, 2, 3}, {0, 2, 4}}, 2), ExitCode::bad_input);
  EXPECT_EQ(code("gpipe", 1, {{0, 3, 2, 4}, {0, 2, 2, 4}}, 3), ExitCode::bad_input);
  EXPECT_EQ(code("gpipe", 1, {{0, 2, 4}, {0, 4}}, 2), ExitCode::bad_input);
}

}  // namespace
}  // namespace sluice
