#include "core/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/index.h"
#include "core/simulator.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

TensorId tensor_named(const Plan& plan, const std::string& name) {
  const auto& tensors = plan.profile.model.tensors;
  return static_cast<TensorId>(
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; }) - tensors.begin());
}

int slots(const Plan& plan, Rank rank, const std::string& tensor) {
  for (const SlotClass& slots : plan_buffers(plan, program(plan, "step"), rank).classes)
    if (slots.value == ValueClass{Payload::activation, tensor_named(plan, tensor), kNone}) return slots.slots;
  return 0;
}

TEST(Liveness, keeps_as_many_microbatches_as_the_schedule_has_in_flight) {
  for (int workers = 1; workers <= 6; ++workers)
    for (int microbatches = 1; microbatches <= 9; ++microbatches)
      for (int k = 0; k < workers; ++k) {
        SCOPED_TRACE(testing::Message() << "K=" << workers << ", M=" << microbatches << ", k=" << k);
        const std::string stash = "aux" + std::to_string(k);
        EXPECT_EQ(slots(examples::textbook_plan("1f1b", workers, microbatches), k, stash),
                  std::min(microbatches, workers - k));
        EXPECT_EQ(slots(examples::textbook_plan("gpipe", workers, microbatches), k, stash), microbatches);
      }
}

/// Position of the layer's stage among those with any work, and how many there are.
std::pair<int, int> position_and_depth(const Plan& plan, int stage) {
  std::set<int> used;
  for (const Stage& s : plan.stages) used.insert(s.index);
  return {static_cast<int>(std::distance(used.begin(), used.find(plan.stages[at(stage)].index))),
          static_cast<int>(used.size())};
}

TEST(Liveness, a_displaced_layer_keeps_what_the_lower_of_its_workers_keeps_and_receives_ahead) {
  int most_beyond = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const Plan plan = examples::random_interval_plan(seed);
    if (plan.schedule != "1f1b") continue;
    const DataFlow flow(plan);
    for (const Tensor& tensor : plan.profile.model.tensors) {
      if (tensor.producer == kDataset) continue;
      const int forward = flow.forward_stage(tensor.producer), backward = flow.backward_stage(tensor.producer);
      const auto [j, depth] = position_and_depth(plan, forward);
      const int k = position_and_depth(plan, backward).first;
      const int rule = depth - std::min(j, k);
      for (const int stage : {forward, backward})
        most_beyond = std::max(most_beyond, slots(plan, plan.stages[at(stage)].owners.front(), tensor.name) - rule);
    }
  }
  // One that arrives while another leaves, and receive_ahead = 1.
  EXPECT_EQ(most_beyond, 2);
}

TEST(Liveness, uses_exactly_as_many_slots_as_lifetimes_overlap) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Plan plan = examples::random_plan(seed);
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
      const BufferPlan buffers = plan_buffers(plan, plan.programs[0], rank);
      for (const SlotClass& slots : buffers.classes) {
        int most = 0;
        for (int i = 0; i < std::ssize(plan.programs[0].ranks[at(rank)]); ++i) {
          std::vector<int> occupied;
          for (const Lifetime& lifetime : buffers.lifetimes)
            if (lifetime.value == slots.value && lifetime.first <= i && i <= lifetime.last)
              occupied.push_back(lifetime.slot);
          most = std::max(most, static_cast<int>(occupied.size()));
          std::sort(occupied.begin(), occupied.end());
          ASSERT_EQ(std::adjacent_find(occupied.begin(), occupied.end()), occupied.end())
              << "two values in one slot, seed " << seed << ", rank " << rank << ", instruction " << i;
        }
        ASSERT_EQ(slots.slots, most) << "seed " << seed << ", rank " << rank;
      }
    }
  }
}

TEST(Liveness, adds_up_the_memory_of_a_small_pipeline) {
  // Two workers of two layers, outputs 100 B, auxiliaries 10 B, input 100 B, labels 4 B, parameters 40 B a layer.
  Profile profile = examples::chain(4, 1e-9, 1e-9);
  for (LayerCost& cost : profile.costs) cost.packed_bytes = 50;
  profile.costs[1].workspace_bytes = 7;
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  const Plan plan = build_plan({.profile = profile,
                                .cluster = cluster,
                                .schedule = "gpipe",
                                .microbatches = 3,
                                .stages = stages_of(examples::even_partition(4, 2))});
  const MemoryUse use = memory_use(plan, 0);
  EXPECT_EQ(use.parameters, 2 * (40 + 50));
  EXPECT_EQ(use.gradients, 2 * 40);
  EXPECT_EQ(use.optimizer_state, 2 * 40);
  EXPECT_EQ(use.workspace, 7 + 2 * 100) << "the gradient of layer 0's output goes through scratch";
  // Rank 0 runs X0 0F0 +T0.0 +T1.0 X1 0F1 +T0.1 +T1.1 X2 -T0.0 0F2 +T0.2 +T1.2 -T0.1 -T1.0 0B0 -T0.2 -T1.1 0B1 ...
  // Three micro-batches of input, layer 0's output and both auxiliaries wait for their backward. Layer 1's output
  // stays until its send T0 is waited for: two at once. The receives T1 of its gradient are three at once.
  EXPECT_EQ(use.buffers, 3 * (100 + 100 + 10 + 10) + 2 * 100 + 3 * 100);
}

TEST(Liveness, recomputed_tensors_live_from_the_recompute_to_the_backward) {
  const Profile profile = examples::chain(3, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(1, 1, {}, {});
  std::vector<Stage> stages{{Work::forward, 0, {0, 1, 2}, {0}}, {Work::backward, 0, {0, 1, 2}, {0}}};
  const auto plan_of = [&] {
    return build_plan(
        {.profile = profile, .cluster = cluster, .schedule = "gpipe", .microbatches = 4, .stages = stages});
  };
  EXPECT_EQ(slots(plan_of(), 0, "out0"), 4);
  stages.push_back({Work::recompute, 0, {0, 1}, {0}});
  const Plan plan = plan_of();
  for (const char* tensor : {"out0", "out1", "aux0", "aux1"}) EXPECT_EQ(slots(plan, 0, tensor), 1) << tensor;
  EXPECT_EQ(slots(plan, 0, "input"), 4) << "what recompute reads is kept";
  EXPECT_EQ(slots(plan, 0, "aux2"), 4);
  for (const Lifetime& lifetime : plan_buffers(plan, plan.programs[0], 0).lifetimes)
    if (lifetime.value.tensor == tensor_named(plan, "out0")) {
      const Op first = plan.programs[0].ranks[0][at(lifetime.first)].op;
      EXPECT_EQ(plan.programs[0].ranks[0][at(lifetime.last)].op, first == Op::forward ? Op::forward : Op::backward);
    }
}

TEST(Liveness, replicas_divide_what_is_in_flight) {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(1, 5, {}, {});
  const Plan plan = build_plan({.profile = profile,
                                .cluster = cluster,
                                .schedule = "1f1b",
                                .microbatches = 12,
                                .stages = {{Work::forward, 0, {0}, {0, 1}},
                                           {Work::forward, 1, {1}, {2, 3, 4}},
                                           {Work::backward, 0, {0}, {0, 1}},
                                           {Work::backward, 1, {1}, {2, 3, 4}}}});
  EXPECT_EQ(slots(plan, 0, "aux0"), 3) << "5 ranks from here on, 2 of them replicas";
  EXPECT_EQ(slots(plan, 1, "aux0"), 3);
  EXPECT_EQ(slots(plan, 2, "aux1"), 1);
  const MemoryUse use = memory_use(plan, 1);
  EXPECT_EQ(use.parameters + use.gradients + use.optimizer_state, 3 * 40) << "every replica has its own";
}

TEST(Liveness, halves_of_a_backward_keep_what_each_reads) {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  const Plan plan = build_plan({.profile = profile,
                                .cluster = cluster,
                                .schedule = "gpipe",
                                .microbatches = 3,
                                .stages = {{Work::forward, 0, {0, 1}, {0}},
                                           {Work::backward_input, 0, {0, 1}, {0}},
                                           {Work::backward_weight, 0, {0, 1}, {1}}}});
  EXPECT_EQ(slots(plan, 0, "aux0"), 3) << "backward-input reads it";
  EXPECT_EQ(slots(plan, 1, "aux0"), 0);
  EXPECT_EQ(slots(plan, 0, "out0"), 2) << "until its send is over";
  EXPECT_EQ(slots(plan, 1, "out0"), 3) << "backward-weight reads it";
  EXPECT_EQ(memory_use(plan, 0).gradients, 0);
  EXPECT_EQ(memory_use(plan, 0).parameters, 80);
  EXPECT_EQ(memory_use(plan, 1).gradients, 80);
}

TEST(Liveness, what_is_still_being_sent_and_what_is_recomputed_are_two) {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  const Plan plan = build_plan({.profile = profile,
                                .cluster = uniform_cluster(1, 2, {}, {}),
                                .schedule = "1f1b",
                                .microbatches = 1,
                                .stages = {{Work::forward, 0, {0}, {0}},
                                           {Work::forward, 1, {1}, {1}},
                                           {Work::backward, 0, {0, 1}, {0}},
                                           {Work::recompute, 0, {0}, {0}}}});
  // X0 0F0 +T0.0 0R0 -T0.0 0B0: the wait is about what the forward made.
  EXPECT_EQ(slots(plan, 0, "out0"), 2);
}

}  // namespace
}  // namespace sluice
