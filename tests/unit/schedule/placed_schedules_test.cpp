#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/simulator.h"
#include "core/stage_pricing.h"
#include "core/verifier.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/interpreter.h"

/// Schedules that prescribe which rank owns which position.
namespace sluice {
namespace {

Plan equal_plan(const std::string& schedule, int ranks, int chunks, int microbatches, double forward_s = 1e-9,
                double backward_s = 1e-9) {
  const int positions = schedule == "chimera" ? ranks : chunks * ranks;
  const Profile profile = examples::chain(positions, forward_s, backward_s);
  const Cluster cluster = uniform_cluster(1, ranks, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = stages_of(examples::even_partition(positions, positions), schedule, ranks)});
}

double bubble(const Plan& plan) { return bubble_fraction(simulate(plan), program(plan, "step")); }

TEST(Interleaved, idles_as_long_as_megatron_says) {
  // Narayanan et al. 2021, section 2.2: bubble over ideal time (p - 1) / (v m); here over the whole step.
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (const int groups : {1, 2, 3})
        for (const double backward_ns : {1, 2, 7}) {
          const int all = chunks * groups * ranks;
          EXPECT_NEAR(bubble(equal_plan("interleaved-1f1b", ranks, chunks, groups * ranks, 1e-9, 1e-9 * backward_ns)),
                      (ranks - 1.0) / (all + ranks - 1), 1e-12)
              << "K=" << ranks << ", v=" << chunks << ", M=" << groups * ranks << ", B=" << backward_ns;
        }
}

TEST(Chimera, idles_as_long_as_its_paper_says) {
  for (const int ranks : {2, 4, 6, 8}) {
    // Li, Hoefler 2021 (their comparison of schemes, quoted from memory), backwards as long as forwards:
    // (D - 2) / (2 N + D - 2).
    for (const int units : {1, 2, 3}) {
      const double all = 2 * units * ranks;
      EXPECT_NEAR(bubble(equal_plan("chimera", ranks, 1, units * ranks)), (ranks - 2) / (all + ranks - 2), 1e-12)
          << "K=" << ranks << ", units " << units;
    }
    // The same count with backwards twice as long: (D - 2) / (3/2 N + D - 2) for N = D.
    EXPECT_NEAR(bubble(equal_plan("chimera", ranks, 1, ranks, 1e-9, 2e-9)), (ranks - 2) / (1.5 * ranks + ranks - 2),
                1e-12)
        << "K=" << ranks;
  }
}

/// Micro-batches that wait for their backward, over all stages of the rank, at most.
int most_in_flight(const Plan& plan, Rank rank) {
  int now = 0, most = 0;
  for (const Instruction& instruction : program(plan, "step").ranks[at(rank)]) {
    if (instruction.op == Op::forward) most = std::max(most, ++now);
    if (instruction.op == Op::backward) --now;
  }
  return most;
}

TEST(Interleaved, keeps_what_its_warm_up_makes) {
  // Megatron-LM: 2 (p - k - 1) + (v - 1) p forwards to warm up, and one more; never more than all.
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (const int groups : {1, 2, 3})
        for (Rank rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(most_in_flight(equal_plan("interleaved-1f1b", ranks, chunks, groups * ranks), rank),
                    std::min(chunks * groups * ranks, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks + 1))
              << "K=" << ranks << ", v=" << chunks << ", M=" << groups * ranks << ", rank " << rank;
}

TEST(Chimera, keeps_between_half_a_pipeline_and_a_whole_one) {
  // Li, Hoefler 2021 (their comparison of schemes, quoted from memory): [D/2 + 1, D] activations.
  for (const int ranks : {2, 4, 6, 8})
    for (const int units : {1, 2, 3}) {
      const Plan plan = equal_plan("chimera", ranks, 1, units * ranks);
      std::vector<int> kept;
      for (Rank rank = 0; rank < ranks; ++rank) kept.push_back(most_in_flight(plan, rank));
      const auto [least, most] = std::minmax_element(kept.begin(), kept.end());
      EXPECT_EQ(*least, ranks / 2 + 1) << "K=" << ranks << ", units " << units;
      EXPECT_EQ(*most, ranks) << "K=" << ranks << ", units " << units;
    }
}

TEST(Interleaved, any_number_of_microbatches_runs) {
  for (int ranks = 1; ranks <= 7; ++ranks)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (int microbatches = 1; microbatches <= 3 * ranks + 2; microbatches += ranks > 4 ? 3 : 1) {
        const auto defect = verify(equal_plan("interleaved-1f1b", ranks, chunks, microbatches));
        EXPECT_FALSE(defect) << "K=" << ranks << ", v=" << chunks << ", M=" << microbatches << ": "
                             << to_string(*defect);
      }
}

TEST(Chimera, any_number_of_microbatches_runs) {
  for (const int ranks : {2, 4, 6, 8})
    for (int microbatches = 1; microbatches <= 2 * ranks + 3; ++microbatches) {
      const auto defect = verify(equal_plan("chimera", ranks, 1, microbatches));
      EXPECT_FALSE(defect) << "K=" << ranks << ", M=" << microbatches << ": " << to_string(*defect);
    }
}

class Placed : public testing::TestWithParam<const char*> {};

TEST_P(Placed, plans_verify_and_end_with_the_weights_of_one_rank) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_placed_plan(GetParam(), seed);
    const auto defect = verify(plan);
    ASSERT_FALSE(defect) << to_string(*defect);
    const interpreter::Outcome outcome = interpreter::interpret(plan, program(plan, "step"), seed);
    ASSERT_EQ(outcome.fault, "");
    const auto expected = interpreter::expected_weights(plan.profile, plan.microbatches);
    for (const auto& [place, weights] : outcome.state.weights) {
      const auto& [rank, layer] = place;
      if (plan.profile.costs[at(layer)].parameter_bytes == 0) continue;
      ASSERT_EQ(weights, expected.at(layer)) << "rank " << rank << ", layer " << layer;
    }
  }
}

/// As solvers make them: stages run their own layers again, one layer reads the input, and nothing is counted of data
/// that one rank reads for all.
bool is_usual(const Plan& plan) {
  const auto reads_input = [&](const LayerNeeds& needs) {
    return std::any_of(needs.forward.begin(), needs.forward.end(), [&](TensorId tensor) {
      return plan.profile.model.tensors[at(tensor)].kind == TensorKind::input;
    });
  };
  const auto runs_others_again = [&](const Stage& stage) {
    return stage.work == Work::recompute && std::none_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& own) {
             return own.index == stage.index && (own.work == Work::backward || own.work == Work::backward_input) &&
                    std::includes(own.layers.begin(), own.layers.end(), stage.layers.begin(), stage.layers.end());
           });
  };
  const std::vector<LayerNeeds>& needs = plan.profile.model.needs;
  return plan.data_reader == kNone && std::count_if(needs.begin(), needs.end(), reads_input) <= 1 &&
         std::none_of(plan.stages.begin(), plan.stages.end(), runs_others_again);
}

TEST_P(Placed, ranks_hold_no_more_than_priced) {
  double priced = 0, held = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Plan plan = examples::random_placed_plan(GetParam(), seed);
    if (!is_usual(plan)) continue;
    const Loads loads = loads_of(plan.profile, plan.cluster, plan.stages,
                                 {.schedule = plan.schedule, .microbatches = plan.microbatches});
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
      const std::int64_t here = memory_use(plan, rank).total();
      EXPECT_GE(loads.ranks[at(rank)].memory_bytes, here) << "seed " << seed << ", rank " << rank;
      priced += static_cast<double>(loads.ranks[at(rank)].memory_bytes);
      held += static_cast<double>(here);
    }
  }
  RecordProperty("priced_over_held", std::to_string(priced / held));
  EXPECT_LT(priced, 2 * held) << "safe, but not far above";
}

INSTANTIATE_TEST_SUITE_P(Schedules, Placed, testing::Values("interleaved-1f1b", "chimera", "zb-v"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Placement, stages_elsewhere_and_odd_chimeras_are_infeasible) {
  const auto expect_infeasible = [](const std::string& schedule, const std::vector<Stage>& stages) {
    const Profile profile = examples::chain(3, 1e-9, 1e-9);
    const Cluster cluster = uniform_cluster(1, 3, {}, {});
    try {
      (void)build_plan(
          {.profile = profile, .cluster = cluster, .schedule = schedule, .microbatches = 2, .stages = stages});
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::infeasible) << error.what();
    }
  };
  const Partition each{{0, 1, 2, 3}, {0, 1, 2, 3}};
  expect_infeasible("chimera", stages_of({{0, 1, 1, 3}, {0, 1, 1, 3}}, "chimera", 3));
  std::vector<Stage> elsewhere = stages_of(each, "interleaved-1f1b", 2);
  elsewhere.back().owners = {1};
  expect_infeasible("interleaved-1f1b", elsewhere);
}

}  // namespace
}  // namespace sluice
