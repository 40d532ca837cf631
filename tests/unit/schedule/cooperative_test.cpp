#include "optimizer/schedule/cooperative.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/fetched_weights.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/simulator.h"
#include "core/stage_pricing.h"
#include "core/verifier.h"
#include "optimizer/schedule/build_plan.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/golden.h"
#include "tests/unit/schedule/interpreter.h"

namespace sluice {
namespace {

std::vector<int> even_bounds(int layers, int ranks) { return examples::even_partition(layers, ranks).forward_bounds; }

Plan cooperative_plan(const Profile& profile, const Cluster& cluster, const std::vector<int>& bounds,
                      int microbatches) {
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = "cooperative",
                     .microbatches = microbatches,
                     .stages = cooperative_stages(profile.model, bounds)});
}

/// One layer per rank, free links.
Plan textbook_plan(int ranks, int microbatches, double forward_s = 1e-9, double backward_s = 2e-9) {
  return cooperative_plan(examples::chain(ranks, forward_s, backward_s), uniform_cluster(1, ranks, {}, {}),
                          even_bounds(ranks, ranks), microbatches);
}

/// A chain whose layers all differ in what they weigh and pass on.
Profile uneven_chain(int layers) {
  Profile profile = examples::chain(layers, 1e-9, 2e-9);
  for (LayerId layer = 0; layer < layers; ++layer) profile.costs[at(layer)].parameter_bytes = 1000 + 7 * layer * layer;
  for (Tensor& tensor : profile.model.tensors)
    if (tensor.kind == TensorKind::output) tensor.bytes = 100 + 3 * tensor.producer;
  return profile;
}

TEST(Cooperative, reproduces_the_figure_written_by_hand) {
  EXPECT_EQ(drawn(textbook_plan(4, 8)), golden_rows("cooperative"));
}

/// Forward in turns, M (F + B) at the last rank, and the way of the last gradient to the first rank.
TEST(Cooperative, takes_as_long_as_its_closed_form_says) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int turns = 1; turns <= 3; ++turns) {
      const int microbatches = ranks * turns;
      const std::int64_t forward = 3, backward = 5;
      const Timeline timeline = simulate(textbook_plan(ranks, microbatches, 3e-9, 5e-9));
      EXPECT_EQ(makespan_ns(timeline),
                (ranks - 1) * turns * forward + microbatches * (forward + backward) + (ranks - 1) * backward)
          << ranks << " ranks, " << microbatches << " micro-batches";
    }
}

using LinkBytes = std::array<std::int64_t, 2>;  // by LinkKind

LinkBytes received(const Plan& plan, const std::string& name = "step") {
  LinkBytes bytes{};
  for (const RankTimeline& rank : simulate(plan, name).ranks)
    for (std::size_t kind = 0; kind < bytes.size(); ++kind) bytes[kind] += rank.received_bytes[kind];
  return bytes;
}

/// Yu, Park 2023, all receivers together: (P-1) (W - W_last), each stage's inputs to its owner except what he made
/// himself, and the gradient of each cut for each micro-batch.
TEST(Cooperative, moves_the_bytes_of_the_formula) {
  for (const int ranks : {2, 3, 4})
    for (const int microbatches : {4, 6, 9}) {
      const Profile profile = uneven_chain(2 * ranks);
      const std::vector<int> bounds = even_bounds(2 * ranks, ranks);
      const Plan plan = cooperative_plan(profile, uniform_cluster(ranks, 1, {}, {}), bounds, microbatches);
      std::int64_t weights = 0, boundaries = 0;
      for (LayerId layer = 0; layer < bounds[at(ranks - 1)]; ++layer)
        weights += profile.costs[at(layer)].parameter_bytes;
      for (int k = 1; k < ranks; ++k) {
        const std::int64_t cut_bytes = 100 + 3 * (bounds[at(k)] - 1);
        boundaries += cut_bytes * (2 * microbatches - microbatches_of(k, ranks, microbatches));
      }
      const LinkBytes bytes = received(plan);
      EXPECT_EQ(bytes[0] + bytes[1], (ranks - 1) * weights + boundaries)
          << ranks << " ranks, " << microbatches << " micro-batches";
    }
}

TEST(Cooperative, weights_enter_each_other_node_once) {
  Profile profile = uneven_chain(12);
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 0;  // weights alone
  std::int64_t weights = 0;
  for (LayerId layer = 0; layer < 10; ++layer) weights += profile.costs[at(layer)].parameter_bytes;
  const Plan plan = cooperative_plan(profile, uniform_cluster(3, 2, {}, {}), even_bounds(12, 6), 6);
  const auto inter = static_cast<std::size_t>(LinkKind::inter_node), intra = 1 - inter;
  for (const char* name : {"step", "evaluate"}) {
    EXPECT_EQ(received(plan, name)[inter], (3 - 1) * weights) << name;
    EXPECT_EQ(received(plan, name)[intra], 3 * weights) << name;
  }
}

TEST(Cooperative, ranks_without_microbatches_fetch_nothing) {
  Profile profile = uneven_chain(4);
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 0;
  const auto weight = [&](LayerId layer) { return profile.costs[at(layer)].parameter_bytes; };
  const Plan plan = cooperative_plan(profile, uniform_cluster(4, 1, {}, {}), even_bounds(4, 4), 2);
  const LinkBytes bytes = received(plan);
  EXPECT_EQ(bytes[0] + bytes[1], weight(0) + weight(1) + 2 * weight(2)) << "ranks 0 and 1 have a micro-batch each";
  EXPECT_EQ(memory_use(plan, 3).fetched_weights, 0);
  EXPECT_EQ(fetching_stages(plan, DataFlow(plan), 3), std::vector<int>{});
  EXPECT_EQ(memory_use(plan, 0).fetched_weights, weight(1) + weight(2));
}

TEST(Cooperative, holds_two_fetched_stages_at_most_and_its_own) {
  for (const int microbatches : {4, 9}) {
    const Profile profile = uneven_chain(8);
    const Plan plan = cooperative_plan(profile, uniform_cluster(2, 4, {}, {}), even_bounds(8, 8), microbatches);
    const auto weight = [&](LayerId layer) { return profile.costs[at(layer)].parameter_bytes; };
    for (Rank rank = 0; rank < std::min(8, microbatches); ++rank) {
      EXPECT_EQ(fetch_slot_bytes(plan, rank).size(), 2U) << "rank " << rank;
      EXPECT_EQ(memory_use(plan, rank).parameters, weight(rank)) << "rank " << rank;
      for (const Program& program : plan.programs)
        EXPECT_EQ(fetch_lifetimes(plan, program, rank).size(), rank < 7 ? 6U : 7U);
    }
    // Rank 7 fetches 0, 2, 4, 6 into one slot and 1, 3, 5 into the other.
    EXPECT_EQ(memory_use(plan, 7).fetched_weights, microbatches < 8 ? 0 : weight(6) + weight(5));
  }
}

TEST(Cooperative, keeps_no_stash_but_the_inputs_of_its_own_stage) {
  Profile profile = examples::chain(8, 1e-9, 2e-9);
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = tensor.kind == TensorKind::auxiliary ? 1 : 0;
  const Plan plan = cooperative_plan(profile, uniform_cluster(1, 4, {}, {}), even_bounds(8, 4), 8);
  for (Rank rank = 0; rank < 4; ++rank)
    for (const SlotClass& slots : slot_classes(plan, rank))
      EXPECT_EQ(slots.bytes > 0 ? slots.slots : 1, 1) << "rank " << rank;
}

TEST(Cooperative, runs_again_only_what_a_backward_reads) {
  Profile profile = examples::chain(4, 1e-9, 2e-9);
  profile.model.needs[1].backward_input.clear();  // of layer 1 nothing but its input, which layer 0 makes
  std::vector<std::vector<LayerId>> again;
  for (const Stage& stage : cooperative_stages(profile.model, {0, 2, 4}))
    if (stage.work == Work::recompute) again.push_back(stage.layers);
  EXPECT_EQ(again, std::vector<std::vector<LayerId>>{{0}}) << "nothing of the last stage";
}

TEST(Cooperative, runs_again_what_leads_to_what_a_backward_reads) {
  Profile profile = examples::chain(4, 1e-9, 2e-9);
  std::vector<LayerNeeds>& needs = profile.model.needs;
  for (const LayerId layer : {0, 1}) needs[at(layer)].backward_input = needs[at(layer)].backward_weight = {};
  for (TensorId t = 0; t < std::ssize(profile.model.tensors); ++t)
    if (const Tensor& tensor = profile.model.tensors[at(t)];
        tensor.kind == TensorKind::auxiliary && tensor.producer == 1)
      needs[1].backward_input.push_back(t);  // made from what layer 0 makes
  ASSERT_FALSE(needs[1].backward_input.empty());
  for (const Stage& stage : cooperative_stages(profile.model, {0, 2, 4}))
    if (stage.work == Work::recompute) {
      EXPECT_EQ(stage.layers, (std::vector<LayerId>{0, 1}));
    }
}

TEST(Cooperative, other_schedules_do_not_fetch_weights) {
  const Profile profile = examples::chain(2, 1e-9, 2e-9);
  try {
    (void)build_plan({.profile = profile,
                      .cluster = uniform_cluster(1, 2, {}, {}),
                      .schedule = "1f1b",
                      .microbatches = 2,
                      .stages = cooperative_stages(profile.model, {0, 1, 2})});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
  }
}

TEST(Cooperative, weights_that_are_fetched_by_a_second_transfer_are_refused) {
  Plan plan = textbook_plan(3, 3);
  const auto weights = std::find_if(plan.transfers.begin(), plan.transfers.end(),
                                    [](const Transfer& transfer) { return transfer.payload == Payload::weights; });
  ASSERT_NE(weights, plan.transfers.end());
  const int first = static_cast<int>(weights - plan.transfers.begin());
  const int second = static_cast<int>(plan.transfers.size());
  plan.transfers.push_back(Transfer(*weights));
  for (Program& program : plan.programs)
    for (std::vector<Instruction>& list : program.ranks)
      for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].transfer == first) {
          Instruction again = list[i];
          again.transfer = second;
          list.insert(list.begin() + static_cast<std::ptrdiff_t>(++i), again);
        }
  const auto defect = verify(plan);
  ASSERT_TRUE(defect);
  EXPECT_NE(defect->reason.find("fetches the weights of layer"), std::string::npos) << defect->reason;
}

TEST(Cooperative, weights_that_are_sent_after_their_update_are_refused) {
  Plan plan = textbook_plan(3, 3);
  for (Program& program : plan.programs)
    if (program.name == "step") {
      std::vector<Instruction>& list = program.ranks[0];
      std::stable_partition(list.begin(), list.end(), [&](const Instruction& instruction) {
        return instruction.transfer == kNone || plan.transfers[at(instruction.transfer)].payload != Payload::weights ||
               plan.groups[at(plan.transfers[at(instruction.transfer)].group)].root != 0;
      });
    }
  const auto defect = verify(plan);
  ASSERT_TRUE(defect);
  EXPECT_NE(defect->reason.find("to be fetched after they were updated"), std::string::npos) << defect->reason;
}

/// Any stages whose forwards fetch weights or not, several on a rank.
class RandomCooperative : public testing::TestWithParam<int> {
 protected:
  template <typename Check>
  void for_each_plan(const Check& check) const {
    for (std::uint64_t seed = static_cast<std::uint64_t>(GetParam()); seed < 600; seed += 2) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      check(examples::random_cooperative_plan(seed), seed);
      if (HasFatalFailure()) return;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomCooperative, testing::Values(0, 1));

TEST_P(RandomCooperative, plans_verify_and_train_like_one_rank) {
  for_each_plan([](const Plan& plan, std::uint64_t seed) {
    const auto defect = verify(plan);
    ASSERT_FALSE(defect) << to_string(*defect);
    const auto expected = interpreter::expected_weights(plan.profile, plan.microbatches);
    const interpreter::Outcome outcome = interpreter::interpret(plan, program(plan, "step"), seed);
    ASSERT_EQ(outcome.fault, "");
    for (const auto& [place, weights] : outcome.state.weights)
      if (plan.profile.costs[at(place.second)].parameter_bytes > 0) {
        ASSERT_EQ(weights, expected.at(place.second));
      }
  });
}

TEST_P(RandomCooperative, plans_hold_two_fetched_stages_at_most) {
  for_each_plan([](const Plan& plan, std::uint64_t) {
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
      ASSERT_LE(fetch_slot_bytes(plan, rank).size(), 2U) << "rank " << rank;
  });
}

TEST(Cooperative, needs_no_more_memory_than_priced) {
  const Profile profile = uneven_chain(8);
  const Cluster cluster = uniform_cluster(2, 4, {}, {});
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<int> bounds = even_bounds(8, 8);
    std::erase_if(bounds, [&](int bound) { return bound % 8 != 0 && std::bernoulli_distribution(0.5)(random); });
    const int microbatches = std::uniform_int_distribution<int>(1, 12)(random);
    const Plan plan = cooperative_plan(profile, cluster, bounds, microbatches);
    const Loads loads = loads_of(profile, cluster, plan.stages, {plan.schedule, microbatches});
    for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank)
      ASSERT_LE(memory_use(plan, rank).total(), loads.ranks[at(rank)].memory_bytes)
          << "seed " << seed << ", rank " << rank;
  }
}

}  // namespace
}  // namespace sluice
