#include "core/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/index.h"
#include "core/liveness.h"
#include "core/text.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

std::string verdict(const Plan& plan) {
  const auto defect = verify(plan);
  return defect ? to_string(*defect) : "passes";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Index of the first instruction of rank `rank` in "step" that prints as `shown`.
int find_cell(const Plan& plan, Rank rank, const std::string& shown) {
  const std::vector<Instruction>& list = program(plan, "step").ranks[at(rank)];
  for (int i = 0; i < std::ssize(list); ++i)
    if (cell(plan, list[at(i)]) == shown) return i;
  ADD_FAILURE() << "no cell " << shown << " at rank " << rank;
  return 0;
}

TEST(Verifier, passes_every_plan_that_we_build) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    const Plan plan = examples::random_plan(seed);
    ASSERT_EQ(verdict(plan), "passes") << "seed " << seed;
  }
}

TEST(Verifier, names_rank_instruction_and_reason_and_shows_the_grid) {
  Plan plan = examples::textbook_plan("1f1b", 3, 4);
  std::vector<Instruction>& list = plan.programs[0].ranks[1];
  const int place = find_cell(plan, 1, "1B0");
  std::swap(list[at(place)], list[at(find_cell(plan, 1, "1B1"))]);
  const std::string message = verdict(plan);
  EXPECT_TRUE(contains(message, text("program step, rank 1, instruction ", place, " (1B1): "))) << message;
  EXPECT_TRUE(contains(message, "micro-batch 0 of the stage is due")) << message;
  EXPECT_TRUE(contains(message, "[1B1]")) << message;
  EXPECT_TRUE(contains(message, "rank 2")) << message;
}

TEST(Verifier, says_who_never_starts_when_ranks_wait_for_each_other) {
  Plan plan = examples::textbook_plan("1f1b", 2, 1);
  // Each rank waits for its send before it starts its receive.
  plan.programs[0].ranks[0] = {{.op = Op::load_input, .microbatch = 0},
                               {.op = Op::forward, .stage = 0, .microbatch = 0},
                               {.op = Op::multicast_start, .transfer = 0, .microbatch = 0},
                               {.op = Op::multicast_wait, .transfer = 0, .microbatch = 0},
                               {.op = Op::multicast_start, .transfer = 1, .microbatch = 0},
                               {.op = Op::multicast_wait, .transfer = 1, .microbatch = 0},
                               {.op = Op::backward, .stage = 2, .microbatch = 0},
                               {.op = Op::optimizer_step, .stage = 2}};
  EXPECT_EQ(verdict(plan), "passes");
  std::swap(plan.programs[0].ranks[0][2], plan.programs[0].ranks[0][4]);  // receive first, and wait for it ...
  std::swap(plan.programs[0].ranks[0][3], plan.programs[0].ranks[0][5]);  // ... before the send is started
  const std::string message = verdict(plan);
  EXPECT_TRUE(contains(message, "program step, rank 0, instruction 3 (-T1.0): waits for ever")) << message;
  EXPECT_TRUE(contains(message, "never started by rank 1")) << message;
}

TEST(Verifier, refuses_tables_that_do_not_fit_the_model) {
  const auto message_with = [](const std::function<void(Plan&)>& change) {
    Plan plan = examples::textbook_plan("gpipe", 2, 2);
    change(plan);
    return verdict(plan);
  };
  EXPECT_EQ(message_with([](Plan& p) {
              p.stages[0].layers = {0, 1};
            }),
            "layer layer1 is in 2 forward stages, expected exactly one");
  EXPECT_EQ(message_with([](Plan& p) { p.stages.pop_back(); }),
            "layer layer1 is in 0 backward stages, expected exactly one");
  EXPECT_EQ(message_with([](Plan& p) {
              p.stages.push_back({Work::backward_weight, 0, {0}, {0}});
            }),
            "backward stage 0 is whole, though other stages are backward_input or backward_weight");
  EXPECT_EQ(message_with([](Plan& p) { p.stages[0].owners = {0, 0}; }), "rank 0 owns forward stage 0 twice");
  EXPECT_EQ(message_with([](Plan& p) { p.transfers[0].bytes = 99; }), "transfer 0 has 99 bytes, its payload 100");
  EXPECT_EQ(message_with([](Plan& p) { p.groups[0].root = 1; }),
            "transfer 0 starts from rank 1, but rank 0 makes its payload");
  EXPECT_EQ(message_with([](Plan& p) { p.programs.pop_back(); }),
            "the plan has 0 programs evaluate, expected exactly one");
  EXPECT_EQ(message_with([](Plan& p) { p.programs[1].name = "steady"; }), "program steady is not supported");
}

/// Two replicas, recomputation and halves of backward in one plan of two layers.
Plan rich_plan() {
  const Profile profile = examples::chain(2, 1e-9, 1e-9);
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = "1f1b",
                     .microbatches = 4,
                     .stages = {{Work::forward, 0, {0}, {0, 1}},
                                {Work::forward, 1, {1}, {2}},
                                {Work::backward_input, 0, {0}, {0, 1}},
                                {Work::backward_input, 1, {1}, {2}},
                                {Work::backward_weight, 0, {0}, {0, 1}},
                                {Work::backward_weight, 1, {1}, {3}},
                                {Work::recompute, 0, {0}, {0, 1}}}});
}

std::string verdict_with(const std::function<void(Plan&)>& change) {
  Plan plan = rich_plan();
  change(plan);
  return verdict(plan);
}

void erase_cells(Plan& plan, Rank rank, const std::string& shown) {
  std::erase_if(plan.programs[0].ranks[at(rank)],
                [&](const Instruction& instruction) { return cell(plan, instruction) == shown; });
}

TEST(Verifier, refuses_stages_that_contradict_each_other) {
  EXPECT_EQ(verdict(rich_plan()), "passes");
  EXPECT_EQ(verdict_with([](Plan& p) { p.stages[3].work = Work::backward; }),
            "backward stage 1 is whole, though other stages are backward_input or backward_weight");
  EXPECT_EQ(verdict_with([](Plan& p) { p.profile.split_backward = false; }),
            "the profile has one time for all of backward: backward_input and backward_weight stages are not possible");
  EXPECT_EQ(verdict_with([](Plan& p) { p.stages[5].layers = {0}; }),
            "layer layer0 is in 2 backward_weight stages, expected exactly one");
  EXPECT_EQ(verdict_with([](Plan& p) { p.stages[0].owners = {1, 1}; }), "rank 1 owns forward stage 0 twice");
  EXPECT_EQ(verdict_with([](Plan& p) { p.stages[1].index = 0; }), "there are two stages forward stage 0");
  EXPECT_EQ(verdict_with([](Plan& p) {
              p.stages[0].index = 1;
              p.stages[1].index = 0;
            }),
            "layer layer1 is in forward stage 0, but layer layer0, which it reads, in the later 1");
  EXPECT_EQ(verdict_with([](Plan& p) {
              p.stages[2].index = 1;
              p.stages[3].index = 0;
            }),
            "layer layer1 is in backward_input stage 0, but layer layer0, which it reads, in the later 1");
  EXPECT_EQ(verdict_with([](Plan& p) {
              p.stages[6].owners = {1, 0};
            }),
            "recompute stage 0 has no backward_input stage of its index and owners");
  EXPECT_EQ(verdict_with([](Plan& p) { p.stages[6].index = 2; }),
            "recompute stage 2 has no backward_input stage of its index and owners");
}

TEST(Verifier, refuses_backwards_without_recompute_and_updates_without_all_reduce) {
  const Plan plan = rich_plan();
  const auto sum = std::find_if(plan.transfers.begin(), plan.transfers.end(),
                                [](const Transfer& transfer) { return transfer.payload == Payload::weight_gradients; });
  ASSERT_NE(sum, plan.transfers.end());
  const std::string transfer = text('T', sum - plan.transfers.begin());
  EXPECT_TRUE(contains(verdict_with([](Plan& p) { erase_cells(p, 0, "0R2"); }), "before it was recomputed"));
  EXPECT_TRUE(contains(verdict_with([&](Plan& p) {
                         for (const Rank rank : {0, 1})
                           for (const char* sign : {"+", "-"}) erase_cells(p, rank, sign + transfer);
                       }),
                       "before its replicas' gradients are summed"));
  EXPECT_TRUE(contains(verdict_with([&](Plan& p) {
                         for (const char* sign : {"+", "-"}) erase_cells(p, 1, sign + transfer);
                       }),
                       "before its replicas' gradients are summed"));
  EXPECT_TRUE(contains(verdict_with([&](Plan& p) {
                         std::vector<Instruction>& list = p.programs[0].ranks[0];
                         std::swap(list[at(find_cell(p, 0, "+" + transfer))], list[at(find_cell(p, 0, "0W2"))]);
                       }),
                       "sums the gradients of layer layer0 after 1 of 2 backwards"));
  EXPECT_TRUE(contains(
      verdict_with([&](Plan& p) { p.transfers[at(static_cast<int>(sum - plan.transfers.begin()))].layer = 1; }),
      "does not sum gradients over the replicas of layer layer1"));
}

TEST(Verifier, refuses_a_rank_whose_memory_is_a_byte_short) {
  Plan plan = examples::textbook_plan("gpipe", 2, 2);
  const std::int64_t needed = memory_use(plan, 1).total();
  plan.cluster.ranks[1].memory_bytes = needed;
  EXPECT_EQ(verdict(plan), "passes");
  plan.cluster.ranks[1].memory_bytes = needed - 1;
  EXPECT_TRUE(contains(verdict(plan), "rank 1 needs")) << verdict(plan);
}

}  // namespace
}  // namespace sluice
