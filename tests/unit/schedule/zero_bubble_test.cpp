// The schedules of Qi, Wan, Huang, Lin 2024 (Zero Bubble Pipeline Parallelism): their closed forms and orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/schedule.h"
#include "core/simulator.h"
#include "core/stage_pricing.h"
#include "core/text.h"
#include "core/verifier.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/golden.h"
#include "tests/unit/schedule/interpreter.h"

namespace sluice {
namespace {

using examples::textbook_plan_in_halves;

class ZeroBubble : public testing::TestWithParam<const char*> {};

TEST_P(ZeroBubble, reproduces_the_authors_schedule) {
  EXPECT_EQ(drawn(textbook_plan_in_halves(GetParam(), 4, 8)), golden_rows(GetParam()));
}

/// Most micro-batches and positions that a rank has between a `first` and a `last` work, both included.
int most_between(const Plan& plan, Rank rank, Op first, Op last) {
  int now = 0, most = 0;
  for (const Instruction& instruction : program(plan, "step").ranks[at(rank)]) {
    if (instruction.op == first) most = std::max(most, ++now);
    if (instruction.op == last) --now;
  }
  return most;
}

/// From the begin of the rank's first compute to the end of its last.
std::int64_t busy_ns(const Plan& plan, const Timeline& timeline, Rank rank) {
  const std::vector<Instruction>& list = program(plan, "step").ranks[at(rank)];
  std::int64_t begin = makespan_ns(timeline), end = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!is_compute(list[i].op)) continue;
    begin = std::min(begin, timeline.ranks[at(rank)].instructions[i].start_ns);
    end = std::max(end, timeline.ranks[at(rank)].instructions[i].end_ns);
  }
  return end - begin;
}

INSTANTIATE_TEST_SUITE_P(Schedules, ZeroBubble, testing::Values("zb-h1", "zb-v"), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// The paper, of its handcrafted schedules: the bubble is (p-1)(F + B - W), where W is no longer than F and B. With M <
/// K, where the first worker waits for every backward-input, M + K - 1 of them (and forwards) are in a row before its
/// last backward-weight; both agree at M = K.
std::int64_t zb_h1_step(int workers, int m, std::int64_t f, std::int64_t b, std::int64_t w) {
  return m < workers ? (m + workers - 1) * (f + b) + w : m * (f + b + w) + (workers - 1) * (f + b - w);
}

TEST(ZbH1, takes_the_papers_step_time) {
  const int times[][3] = {{1, 1, 1}, {2, 2, 1}, {2, 3, 2}, {1, 2, 1}, {3, 1, 1}};
  for (const auto& [f, b, w] : times)
    for (int workers = 1; workers <= 8; ++workers)
      for (int m = 1; m <= 16; m += workers < 5 ? 1 : 3)
        EXPECT_EQ(makespan_ns(simulate(textbook_plan_in_halves("zb-h1", workers, m, {f * 1e-9, b * 1e-9, w * 1e-9}))),
                  zb_h1_step(workers, m, f, b, w))
            << workers << " workers, M = " << m << ", times " << f << ' ' << b << ' ' << w;
}

/// Likewise: p activations on every worker; k of them wait for their backward-weight alone (1f1b: p - k on worker k).
TEST(ZbH1, keeps_as_many_micro_batches_on_every_worker_as_1f1b_on_the_first) {
  for (int workers = 1; workers <= 6; ++workers)
    for (const int m : {1, 3, 6, 9}) {
      const Plan plan = textbook_plan_in_halves("zb-h1", workers, m);
      for (Rank k = 0; k < workers; ++k) {
        SCOPED_TRACE(text(workers, " workers, M = ", m, ", rank ", k));
        EXPECT_EQ(most_between(plan, k, Op::forward, Op::backward_weight), std::min(m, workers));
        EXPECT_EQ(most_between(plan, k, Op::forward, Op::backward_input), std::min(m, workers - k));
        EXPECT_EQ(most_between(plan, k, Op::backward_input, Op::backward_weight),
                  std::min(m, workers) - std::min(m, workers - k) + 1);
      }
    }
}

/// Slots of a tensor (or of the gradient of it) on a rank.
int slots(const Plan& plan, Rank rank, Payload payload, const std::string& tensor) {
  int slots = 0;
  for (const SlotClass& c : slot_classes(plan, rank))
    if (c.value.payload == payload && plan.profile.model.tensors[at(c.value.tensor)].name == tensor) slots += c.slots;
  return slots;
}

TEST(ZbH1, holds_what_a_half_of_backward_reads_until_that_half_has_run) {
  const Plan plan = textbook_plan_in_halves("zb-h1", 4, 8);
  for (Rank k = 0; k < 4; ++k) {
    SCOPED_TRACE(text("rank ", k));
    EXPECT_EQ(slots(plan, k, Payload::activation, text("aux", k)), 4 - k) << "backward-input reads it";
    const int read = slots(plan, k, Payload::activation, k == 0 ? "input" : text("out", k - 1));
    EXPECT_EQ(read, 4 + (k == 0 ? 0 : 1)) << "backward-weight reads it; one more arrives early";
  }
}

/// Section 6 of the paper: "zero bubble" means that every rank works without a pause from its first instruction to its
/// last. In units of a chunk's F = B = W that is 6 M; rank r begins r units after the first, and the last ends K - 1
/// after the first: the ends of a parallelogram that the paper joins to the next step's and we do not. So 6 M + K - 1,
/// from M = 2 K - 1 on. With few micro-batches the way down and up and back is longer: 2 K forwards and 2 K
/// backward-inputs, one backward-weight in between and one at the end; each further micro-batch adds two forwards and
/// two backward-inputs.
std::int64_t zb_v_step(int ranks, int m) { return std::max(6 * m + ranks - 1, 4 * m + 4 * ranks - 2); }

TEST(ZbV, has_no_bubble_but_the_ends_of_a_parallelogram) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int m = 1; m <= 16; m += ranks < 5 ? 1 : 3) {
      const Plan plan = textbook_plan_in_halves("zb-v", ranks, m);
      const Timeline timeline = simulate(plan);
      EXPECT_EQ(makespan_ns(timeline), zb_v_step(ranks, m)) << ranks << " ranks, M = " << m;
      if (m < 2 * ranks - 1) continue;
      for (Rank rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(busy_ns(plan, timeline, rank), 6 * m) << ranks << " ranks, M = " << m << ", rank " << rank;
    }
}

/// Section 6: p M_B on every worker, which is 2 p chunks.
TEST(ZbV, keeps_two_chunks_for_every_rank_on_every_rank) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (const int m : {1, 4, 2 * ranks - 1, 14}) {
      const Plan plan = textbook_plan_in_halves("zb-v", ranks, m);
      for (Rank rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(text(ranks, " ranks, M = ", m, ", rank ", rank));
        const int most = most_between(plan, rank, Op::forward, Op::backward_weight);
        EXPECT_LE(most, std::min(2 * m, 2 * ranks));
        EXPECT_TRUE(m < 2 * ranks - 1 || most == 2 * ranks) << most;
      }
    }
}

void expect_infeasible(const std::string& schedule, const Profile& profile, std::vector<Stage> stages,
                       const std::string& reason) {
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  try {
    (void)build_plan(
        {.profile = profile, .cluster = cluster, .schedule = schedule, .microbatches = 3, .stages = std::move(stages)});
    FAIL() << "accepted, expected: " << reason;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST_P(ZeroBubble, needs_a_profile_that_tells_the_halves_of_backward_apart) {
  Profile profile = examples::chain(4, 1e-9, 1e-9);
  profile.split_backward = false;
  expect_infeasible(GetParam(), profile, stages_of({{0, 2, 4}, {0, 2, 4}}),
                    "runs backward-input and backward-weight apart");
}

TEST(ZbV, wants_positions_and_their_mirrors_on_one_rank_but_not_layers_at_all_of_them) {
  const Profile profile = examples::chain(4, 1e-9, 1e-9);
  std::vector<Stage> stages = stages_of({{0, 2, 3, 4}, {0, 2, 3, 4}});
  const auto place = [&](const std::vector<int>& indices, const std::vector<Rank>& owners) {
    for (std::size_t s = 0; s < stages.size(); ++s)  // forwards, then backwards
      stages[s].index = indices[s % 3], stages[s].owners = {owners[s % 3]};
  };
  place({0, 1, 2}, {0, 1, 0});
  expect_infeasible("zb-v", profile, stages, "the stages are elsewhere");
  place({0, 2, 3}, {0, 1, 0});
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  EXPECT_FALSE(verify(build_plan({profile, cluster, "zb-v", 3, stages})));
}

TEST(ZbV, refuses_backward_weights_that_would_wait_for_an_earlier_position) {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  expect_infeasible("zb-v", profile,
                    {{Work::forward, 0, {0}, {0}},
                     {Work::forward, 1, {1}, {0}},
                     {Work::backward_input, 0, {0, 1}, {0}},
                     {Work::backward_weight, 1, {0, 1}, {0}}},
                    "that of position 1 needs gradients of position 0");
}

/// Ascending bounds 0..layers; nothing empty.
std::vector<int> random_bounds(std::mt19937_64& random, int layers, int positions) {
  std::vector<int> cuts(at(layers - 1));
  std::iota(cuts.begin(), cuts.end(), 1);
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.resize(at(positions - 1));
  cuts.insert(cuts.end(), {0, layers});
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// Layers of random costs on K 1..8 ranks with links that cost, M 1..16; joint, independent or (zb-h1) three cuts.
Plan random_plan_of(const std::string& schedule, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto uniform = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int ranks = uniform(1, 8), positions = positions_of(schedule_named(schedule).placement, ranks, 1);
  const int layers = positions + uniform(0, 6), kind = uniform(0, schedule == "zb-v" ? 1 : 2);
  Profile profile = examples::chain(layers, 0, 0);
  for (LayerCost& cost : profile.costs)
    for (double* seconds : {&cost.forward_s, &cost.backward_input_s, &cost.backward_weight_s, &cost.update_s})
      *seconds = 1e-9 * uniform(0, 30);
  const std::vector<int> forward = random_bounds(random, layers, positions);
  const std::vector<int> backward = kind == 0 ? forward : random_bounds(random, layers, positions);
  std::vector<Stage> stages = stages_of({forward, backward});
  if (kind == 2) {
    for (Stage& stage : stages)
      if (stage.work == Work::backward) stage.work = Work::backward_input;
    for (Stage stage : stages_of({forward, random_bounds(random, layers, positions)}))
      if (stage.work == Work::backward) {
        stage.work = Work::backward_weight;
        stages.push_back(stage);
      }
  }
  for (Stage& stage : stages) stage.owners = owners_at(schedule_named(schedule).placement, stage.index, ranks);
  const Cluster cluster = uniform_cluster(2, (ranks + 1) / 2, {1e-9, 1e11}, {5e-9, 2e10});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = uniform(1, 16),
                     .stages = std::move(stages)});
}

TEST_P(ZeroBubble, runs_to_the_weights_of_one_rank_under_random_cuts_and_costs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    const Plan plan = random_plan_of(GetParam(), seed);
    const auto defect = verify(plan);
    ASSERT_FALSE(defect) << to_string(*defect);
    const interpreter::Outcome outcome = interpreter::interpret(plan, program(plan, "step"), seed);
    ASSERT_EQ(outcome.fault, "");
    const auto expected = interpreter::expected_weights(plan.profile, plan.microbatches);
    for (const auto& [place, weights] : outcome.state.weights) ASSERT_EQ(weights, expected.at(place.second));
    const Timeline timeline = simulate(plan);
    const Loads loads = loads_of(plan.profile, plan.cluster, plan.stages, {GetParam(), plan.microbatches});
    for (Rank rank = 0; rank < std::ssize(timeline.ranks); ++rank)
      EXPECT_GE(loads.ranks[at(rank)].memory_bytes, timeline.ranks[at(rank)].peak_memory_bytes) << "rank " << rank;
  }
}

TEST_P(ZeroBubble, held_memory_does_not_grow_with_the_number_of_micro_batches) {
  std::vector<std::int64_t> held;
  for (const int m : {20, 40}) {
    const Plan plan = textbook_plan_in_halves(GetParam(), 4, m);
    for (Rank rank = 0; rank < 4; ++rank) held.push_back(memory_use(plan, rank).total());
  }
  EXPECT_TRUE(std::equal(held.begin(), held.begin() + 4, held.begin() + 4));
}

}  // namespace
}  // namespace sluice
