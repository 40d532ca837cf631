#include "optimizer/schedule/asynchronous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/prediction.h"
#include "core/stage_pricing.h"
#include "core/verifier.h"
#include "tests/unit/schedule/damage.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/golden.h"
#include "tests/unit/schedule/interpreter.h"

namespace sluice {
namespace {

Program of_periods(const Plan& plan, int periods) { return unrolled(plan, periods - steadies_in_drain(plan)); }

TEST(Asynchronous, pipedream_runs_as_its_paper_draws_it) {
  const Plan plan = examples::textbook_plan("pipedream", 4, 4, 1e-9, 2e-9);
  EXPECT_EQ(drawn(plan, of_periods(plan, 2)), golden_rows("pipedream"));
}

TEST(Asynchronous, pipedream_2bw_runs_as_its_paper_draws_it) {
  const Plan plan = examples::textbook_plan("pipedream-2bw", 4, 4, 1e-9, 2e-9);
  EXPECT_EQ(drawn(plan, of_periods(plan, 3)), golden_rows("pipedream-2bw", "4x12"));
}

TEST(Asynchronous, a_rank_that_is_slower_by_little_sets_the_time_of_a_run) {
  Profile profile = examples::chain(4, 100e-9, 200e-9);
  profile.costs[0].forward_s = 101e-9;
  const Plan plan = build_plan({.profile = profile,
                                .cluster = uniform_cluster(1, 4, {}, {}),
                                .schedule = "pipedream",
                                .microbatches = 5,
                                .stages = stages_of(examples::even_partition(4, 4))});
  EXPECT_NEAR(predict_step(plan).step_s, 5 * 301e-9, 1e-15);
}

/// Slots of the tensor that a layer of examples::chain makes besides its output: stashed from forward to backward.
int stashes(const Plan& plan, Rank rank) {
  for (const SlotClass& slots : slot_classes(plan, rank))
    if (plan.profile.model.tensors[at(slots.value.tensor)].kind == TensorKind::auxiliary) return slots.slots;
  return 0;
}

// Narayanan et al. 2019, 1F1B and weight stashing: no bubble in the steady state, and n - k minibatches in flight and
// as many versions of the weights at stage k of n, counted from 0 (num_warmup_minibatches + 1 in msr-fiddle/pipedream).
// Narayanan et al. 2021, double-buffered updates: two versions, as many in flight.
TEST(Asynchronous, equal_stages_have_no_bubble_and_the_papers_stashes_and_versions) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"})
    for (int workers = 1; workers <= 8; ++workers)
      for (const int microbatches : {1, 2, 5, 8, 11}) {
        const bool late = std::string(schedule) == "pipedream-2bw";
        if (late && microbatches < workers) continue;
        SCOPED_TRACE(testing::Message() << schedule << ", K=" << workers << ", M=" << microbatches);
        const Plan plan = examples::textbook_plan(schedule, workers, microbatches, 7e-9, 11e-9);
        const Prediction step = predict_step(plan);
        EXPECT_NEAR(step.step_s, microbatches * 18e-9, 1e-15);
        EXPECT_NEAR(step.bubble, 0, 1e-9);
        for (int k = 0; k < workers; ++k) {
          EXPECT_EQ(stashes(plan, k), workers - k);
          EXPECT_EQ(weight_versions(plan)[at(k)], late ? 2 : workers - k);
        }
      }
}

TEST(Asynchronous, memory_counts_every_version_of_the_weights) {
  const Plan plan = examples::textbook_plan("pipedream", 4, 4);
  for (int k = 0; k < 4; ++k) EXPECT_EQ(memory_use(plan, k).parameters, (4 - k) * 40);
}

TEST(Asynchronous, no_rank_holds_more_than_the_planner_charges) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Plan plan = examples::random_asynchronous_plan(seed);
    if (plan.data_reader != kNone) continue;  // what it holds is not charged
    const Loads loads = loads_of(plan.profile, plan.cluster, plan.stages, {plan.schedule, plan.microbatches});
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
      ASSERT_GE(loads.ranks[at(rank)].memory_bytes, memory_use(plan, rank).total())
          << "seed " << seed << ", rank " << rank;
  }
}

TEST(Asynchronous, a_run_of_steady_moves_what_the_planner_prices) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Plan plan = examples::random_asynchronous_plan(seed);
    const Loads loads =
        loads_of(plan.profile, plan.cluster, plan.stages,
                 {.schedule = plan.schedule, .microbatches = plan.microbatches, .data_reader = plan.data_reader});
    const Timeline run = predict_step(plan).timeline;
    std::vector<double> received(loads.nodes.size());
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
      received[at(plan.cluster.ranks[at(rank)].node)] +=
          static_cast<double>(run.ranks[at(rank)].received_bytes[static_cast<std::size_t>(LinkKind::inter_node)]);
    for (std::size_t node = 0; node < received.size(); ++node)
      ASSERT_GE(received[node] / plan.microbatches, loads.nodes[node].received_bytes - 1e-6)
          << "seed " << seed << ", node " << node;
  }
}

TEST(Asynchronous, a_displaced_layer_is_as_late_as_its_earlier_position) {
  const Profile profile = examples::chain(3, 1e-9, 1e-9);
  const Plan plan = build_plan({.profile = profile,
                                .cluster = uniform_cluster(1, 3, {}, {}),
                                .schedule = "pipedream",
                                .microbatches = 3,
                                .stages = stages_of({{0, 1, 2, 3}, {0, 2, 3, 3}})});
  EXPECT_EQ(verify(plan), std::nullopt);
  const WeightVersions versions(plan);
  for (const LayerId layer : {0, 1}) EXPECT_EQ(versions.kept(layer), 3) << "forward or backward at position 0";
  EXPECT_EQ(versions.kept(2), 2);
  EXPECT_EQ(versions.lag(1, 1), 1) << "stage 1 is one behind, its layer two";
}

TEST(Asynchronous, every_plan_ends_with_the_weights_of_the_formulas) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_asynchronous_plan(seed);
    const auto defect = verify(plan);
    ASSERT_FALSE(defect) << to_string(*defect);
    for (const int steadies : {0, 1, 2, 5}) {
      const Program whole = unrolled(plan, steadies);
      const interpreter::Outcome outcome = interpreter::interpret(plan, whole, seed);
      ASSERT_EQ(outcome.fault, "") << whole.name;
      const int microbatches = (steadies + steadies_in_drain(plan)) * plan.microbatches;
      const auto expected = interpreter::expected_late_weights(plan, microbatches);
      for (const auto& [place, weights] : outcome.state.weights) {
        const auto& [rank, layer] = place;
        if (!expected.contains(layer)) continue;  // no parameters
        ASSERT_EQ(weights, expected.at(layer)) << whole.name << ", rank " << rank;
      }
    }
    (void)predict_step(plan);
  }
}

/// What two random interleavings make of a damaged program, for several numbers of steady programs.
std::string harm(const Plan& plan, const Plan& intact, const std::string& name, std::uint64_t seed) {
  std::vector<int> counts{0, 1, 2, steadies_to_settle(intact) + 2};
  if (name == "evaluate") counts = {kNone};
  for (const int steadies : counts) {
    const auto run = [&](const Plan& of, std::uint64_t interleaving) {
      return interpreter::interpret(of, steadies == kNone ? program(of, name) : unrolled(of, steadies), interleaving);
    };
    const interpreter::FinalState expected = run(intact, seed).state;
    for (std::uint64_t i = 0; i < 2; ++i) {
      const interpreter::Outcome outcome = run(plan, 2 * seed + i);
      if (!outcome.fault.empty()) return outcome.fault;
      if (outcome.state != expected) return "another final state";
    }
  }
  return {};
}

TEST(Asynchronous, damage_is_refused_exactly_when_the_interpreter_finds_harm) {
  const char* rounds = std::getenv("SLUICE_TEST_ROUNDS");  // 1 in the quick run, more when soaking
  const std::uint64_t seeds = 1500 * (rounds != nullptr ? std::stoull(rounds) : 1);
  std::uint64_t harmless = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    const Plan intact = examples::random_asynchronous_plan(seed / 8);
    Plan plan = intact;
    Program& program = plan.programs[seed % 4];
    const auto is_empty = [](const auto& list) { return list.empty(); };
    if (std::all_of(program.ranks.begin(), program.ranks.end(), is_empty)) continue;
    const std::string done = damage(plan, program, random);
    ASSERT_NO_THROW(validate(plan)) << "seed " << seed << ": " << done;

    const std::string found = harm(plan, intact, program.name, seed);
    const auto defect = verify(plan);
    ASSERT_EQ(defect.has_value(), !found.empty())
        << "seed " << seed << ", program " << program.name << ": " << done << "\ninterpreter: " << found
        << "\nverifier: " << (defect ? to_string(*defect) : "passes");
    harmless += found.empty() ? 1 : 0;
  }
  EXPECT_GT(harmless, seeds / 20) << "too few to show that the verifier lets the harmless pass";
  EXPECT_LT(harmless, seeds / 2) << "too few harmful ones";
}

TEST(Asynchronous, a_version_that_the_formula_does_not_give_is_refused_with_its_cell) {
  Plan plan = examples::textbook_plan("pipedream", 2, 2);
  for (Program& program : plan.programs)
    if (program.name == "steady")
      for (Instruction& instruction : program.ranks[0])
        if (instruction.op == Op::backward && instruction.microbatch == 1) instruction.version += 1;
  const auto defect = verify(plan);
  ASSERT_TRUE(defect);
  EXPECT_EQ(defect->cell, "0B1v1");
  EXPECT_NE(defect->reason.find("takes version 0"), std::string::npos) << defect->reason;
}

TEST(Asynchronous, weights_received_before_the_oldest_version_is_done_with_are_refused) {
  const Profile profile = examples::chain(3, 1e-9, 1e-9);
  Plan plan = build_plan({.profile = profile,
                          .cluster = uniform_cluster(1, 3, {}, {}),
                          .schedule = "pipedream",
                          .microbatches = 3,
                          .stages = stages_of({{0, 2, 3}, {0, 1, 3}})});  // layer 1: forward on rank 0, backward on 1
  const auto is_receive = [&](const Instruction& instruction) {
    return instruction.op == Op::multicast_start &&
           plan.transfers[at(instruction.transfer)].payload == Payload::weights;
  };
  std::vector<Instruction>& list = plan.programs[1].ranks[0];
  const auto start = std::find_if(list.begin(), list.end(), is_receive);
  ASSERT_NE(start, list.end());
  const auto forward = std::find_if(std::make_reverse_iterator(start), list.rend(),
                                    [](const Instruction& i) { return i.op == Op::forward; });
  ASSERT_NE(forward, list.rend());
  std::rotate(forward.base() - 1, start, start + 1);
  const auto defect = verify(plan);
  ASSERT_TRUE(defect);
  EXPECT_NE(defect->reason.find("which has been replaced"), std::string::npos) << defect->reason;
}

TEST(Asynchronous, what_only_a_late_run_of_steady_would_meet_is_refused) {
  Plan plan = examples::textbook_plan("pipedream", 2, 2);
  for (Program& program : plan.programs)
    if (program.name == "fill") program.ranks[0].push_back({.op = Op::load_input, .microbatch = 40});
  EXPECT_EQ(interpreter::interpret(plan, unrolled(plan, 5), 0).fault, "") << "harmless so far";
  EXPECT_NE(interpreter::interpret(plan, unrolled(plan, 30), 0).fault, "") << "micro-batch 40 is loaded twice";
  const auto defect = verify(plan);
  ASSERT_TRUE(defect);
  EXPECT_NE(defect->reason.find("in another state"), std::string::npos) << defect->reason;
}

TEST(Asynchronous, what_the_schedules_lack_is_infeasible) {
  const auto exit_code = [](const std::string& schedule, int microbatches, std::vector<Stage> stages) {
    try {
      const Profile profile = examples::chain(2, 1e-9, 1e-9);
      (void)build_plan({.profile = profile,
                        .cluster = uniform_cluster(1, 3, {}, {}),
                        .schedule = schedule,
                        .microbatches = microbatches,
                        .stages = std::move(stages)});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(": "), std::string::npos) << "no way out: " << error.what();
      return error.exit_code();
    }
    return ExitCode::done;
  };
  const std::vector<Stage> two{{Work::forward, 0, {0}, {0}},
                               {Work::forward, 1, {1}, {1}},
                               {Work::backward, 0, {0}, {0}},
                               {Work::backward, 1, {1}, {1}}};
  EXPECT_EQ(exit_code("pipedream", 1, two), ExitCode::done);
  EXPECT_EQ(exit_code("pipedream-2bw", 2, two), ExitCode::done);
  EXPECT_EQ(exit_code("pipedream-2bw", 1, two), ExitCode::infeasible) << "fewer micro-batches than positions";
  EXPECT_EQ(exit_code("pipedream", 2, {{Work::forward, 0, {0, 1}, {0, 1}}, {Work::backward, 0, {0, 1}, {0, 1}}}),
            ExitCode::infeasible);
  EXPECT_EQ(exit_code("pipedream", 2, {{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 0, {0, 1}, {1}}}),
            ExitCode::infeasible);
  EXPECT_EQ(
      exit_code("pipedream", 2,
                {{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 0, {0, 1}, {0}}, {Work::recompute, 0, {0}, {0}}}),
      ExitCode::infeasible);
}

}  // namespace
}  // namespace sluice
