// One rank that reads input and labels for all.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/simulator.h"
#include "core/verifier.h"
#include "optimizer/schedule/stream.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

using examples::cells;

/// A layer a worker and a last rank without work; the first reads the input, the last the labels.
Plan pipeline(const std::string& schedule, int workers, int microbatches, Rank reader, const Cluster& cluster) {
  const Profile profile = examples::chain(workers, 1e-6, 2e-6);
  return build_plan({.profile = profile,
                     .cluster = cluster,
                     .schedule = schedule,
                     .microbatches = microbatches,
                     .stages = stages_of(examples::even_partition(workers, workers)),
                     .data_reader = reader});
}

Plan pipeline(const std::string& schedule, int workers, int microbatches, Rank reader) {
  return pipeline(schedule, workers, microbatches, reader, uniform_cluster(1, workers + 1, {}, {}));
}

std::string verdict(const Plan& plan) {
  const auto defect = verify(plan);
  return defect ? to_string(*defect) : "passes";
}

bool is_of_dataset(const Plan& plan, const Transfer& transfer) {
  return transfer.payload == Payload::activation &&
         plan.profile.model.tensors[at(transfer.tensor)].producer == kDataset;
}

TEST(DataReader, loads_ahead_of_the_rank_that_needs_it) {
  const Plan plan = pipeline("gpipe", 1, 3, 1);
  EXPECT_EQ(cells(plan, "evaluate", 1),
            "X0 +T0.0 Y0 +T1.0 X1 +T0.1 -T0.0 Y1 +T1.1 -T1.0 X2 +T0.2 -T0.1 Y2 +T1.2 -T1.1 -T0.2 -T1.2");
  EXPECT_EQ(cells(plan, "evaluate", 0),
            "+T0.0 +T1.0 +T0.1 +T1.1 +T0.2 +T1.2 -T0.0 -T1.0 0F0 -T0.1 -T1.1 0F1 -T0.2 -T1.2 0F2");
}

TEST(DataReader, with_a_stage_loads_before_its_receiver_begins_what_precedes_the_first_use) {
  // Rank 0 runs 0F0 0F1 0B0 0F2 0B1: input 2 is loaded before 0B0, while rank 1 is still between 1B0 and 1F1.
  const Plan plan = pipeline("1f1b", 2, 3, 1);
  EXPECT_EQ(cells(plan, "step", 1),
            "+T1.0 +T1.1 X0 +T0.0 X1 +T0.1 -T0.0 Y0 -T1.0 1F0 -T0.1 1B0 +T2.0 X2 +T0.2 Y1 +T1.2 -T1.1 1F1 -T2.0 -T0.2 "
            "1B1 +T2.1 Y2 -T1.2 1F2 -T2.1 1B2 +T2.2 U1 -T2.2");
}

TEST(DataReader, alone_reads_and_sends_each_tensor_of_a_microbatch_in_one_multicast_to_all_who_read_it) {
  int with_reader = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Plan plan = seed % 4 == 0 ? examples::random_cooperative_plan(seed) : examples::random_plan(seed);
    if (plan.data_reader == kNone) continue;
    ++with_reader;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const DataFlow flow(plan);
    for (const Program& program : plan.programs) {
      std::map<ValueUse, std::set<Rank>> readers, members;
      for (Rank rank = 0; rank < std::ssize(program.ranks); ++rank)
        for (const Instruction& instruction : program.ranks[at(rank)]) {
          ASSERT_TRUE(!is_load(instruction.op) || rank == plan.data_reader);
          if (is_compute(instruction.op))
            for (const ValueUse& use : flow.access(instruction, rank).reads)
              if (plan.profile.model.tensors[at(use.value.tensor)].producer == kDataset) readers[use].insert(rank);
          if (instruction.op != Op::multicast_start) continue;
          const Transfer& transfer = plan.transfers[at(instruction.transfer)];
          if (!is_of_dataset(plan, transfer)) continue;
          ASSERT_EQ(plan.groups[at(transfer.group)].root, plan.data_reader);
          const ValueUse use{{Payload::activation, transfer.tensor, kNone}, instruction.microbatch};
          ASSERT_TRUE(members[use].insert(rank).second) << "two multicasts of one tensor";
        }
      for (auto& [use, ranks] : readers) {
        if (ranks == std::set<Rank>{plan.data_reader}) continue;
        ranks.insert(plan.data_reader);
        ASSERT_EQ(members[use], ranks);
      }
    }
  }
  EXPECT_GT(with_reader, 200);
}

TEST(DataReader, data_enters_each_remote_node_once) {
  // Three nodes of two ranks; all reads are on the second.
  const Profile profile = examples::chain(1, 1e-6, 2e-6);
  for (const Algorithm algorithm : {Algorithm::hierarchical, Algorithm::flat}) {
    const Plan plan = build_plan({.profile = profile,
                                  .cluster = uniform_cluster(3, 2, {1e-6, 1e9}, {1e-6, 1e9}),
                                  .schedule = "gpipe",
                                  .microbatches = 4,
                                  .stages = {{Work::forward, 0, {0}, {2}},
                                             {Work::backward_input, 0, {0}, {4}},
                                             {Work::backward_weight, 0, {0}, {3}}},
                                  .multicast = algorithm,
                                  .data_reader = 0});
    ASSERT_EQ(verdict(plan), "passes");
    constexpr auto kInter = static_cast<std::size_t>(LinkKind::inter_node);
    const Timeline timeline = simulate(plan, "step");
    // Forward reads input (100 B) and labels (4 B), backward-weight on the same node the input again.
    const std::int64_t crossings = algorithm == Algorithm::flat ? 2 : 1;
    EXPECT_EQ(timeline.ranks[0].sent_bytes[kInter], 4 * (crossings * 100 + 4)) << to_string(algorithm);
  }
}

int slots(const Plan& plan, Rank rank, const std::string& tensor) {
  for (const SlotClass& slots : slot_classes(plan, rank))
    if (plan.profile.model.tensors[at(slots.value.tensor)].name == tensor && slots.value.payload == Payload::activation)
      return slots.slots;
  return 0;
}

TEST(DataReader, holds_two_microbatches_for_others_however_many_there_are) {
  for (const char* schedule : {"1f1b", "gpipe"})
    for (const int workers : {1, 3, 6})
      for (const int microbatches : {1, 2, 5, 40}) {
        SCOPED_TRACE(testing::Message() << schedule << ", K=" << workers << ", M=" << microbatches);
        const Plan plan = pipeline(schedule, workers, microbatches, workers);
        for (const char* tensor : {"input", "labels"})
          EXPECT_EQ(slots(plan, workers, tensor), std::min(2, microbatches)) << tensor;
        EXPECT_EQ(memory_use(plan, workers).total(), std::min(2, microbatches) * (100 + 4));
      }
}

TEST(DataReader, is_not_allowed_to_run_ahead_of_who_needs_the_data) {
  for (const Rank reader : {0, 1, 2, 3}) {
    const Plan plan = pipeline("1f1b", 3, 50, reader);
    // Three in flight at the first position, and what is received ahead.
    EXPECT_LE(slots(plan, 0, "input"), 3 + 3) << "reader " << reader;
    EXPECT_LE(slots(plan, 2, "labels"), 1 + 3) << "reader " << reader;
  }
}

TEST(DataReader, data_travels_while_its_receiver_computes) {
  // An input takes 0.9 us on the link, a forward 1 us and a backward 2 us.
  const Cluster linked = uniform_cluster(2, 2, {0, 1e15}, {0, 100 / 0.9e-6});
  for (const char* schedule : {"1f1b", "gpipe"}) {
    const auto step_ns = [&](Rank reader) { return makespan_ns(simulate(pipeline(schedule, 1, 20, reader, linked))); };
    const auto read_by_each = step_ns(kNone);
    EXPECT_EQ(step_ns(0), read_by_each);
    EXPECT_LE(step_ns(3), read_by_each + 2 * 950) << "only the first is waited for";
  }
}

TEST(DataReader, serves_asynchronous_schedules_with_or_without_a_stage) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"})
    for (const Rank reader : {0, 1, 2, 3}) {
      const Plan plan = pipeline(schedule, 3, 4, reader);
      EXPECT_EQ(verdict(plan), "passes") << schedule << ", reader " << reader;
      EXPECT_EQ(std::count_if(program(plan, "steady").ranks[at(reader)].begin(),
                              program(plan, "steady").ranks[at(reader)].end(),
                              [](const Instruction& instruction) { return instruction.op == Op::load_input; }),
                4);
    }
}

TEST(DataReader, others_that_load_or_send_the_data_are_refused) {
  const Plan intact = pipeline("1f1b", 2, 2, 2);
  ASSERT_EQ(verdict(intact), "passes");
  Plan plan = intact;
  std::vector<Instruction>& list = plan.programs[0].ranks[0];
  list.insert(list.begin(), {.op = Op::load_labels, .microbatch = 0});
  EXPECT_NE(verdict(plan).find("reads the dataset, but rank 2 does so for all"), std::string::npos) << verdict(plan);

  plan = intact;
  for (Transfer& transfer : plan.transfers)
    if (is_of_dataset(plan, transfer))
      plan.groups[at(transfer.group)].root = plan.groups[at(transfer.group)].members[0];
  EXPECT_NE(verdict(plan).find("but rank 2 makes its payload"), std::string::npos) << verdict(plan);
}

TEST(DataReader, changes_the_digest) {
  Plan plan = pipeline("1f1b", 2, 2, kNone);
  const std::uint64_t before = digest(plan);
  plan.data_reader = 1;
  EXPECT_NE(digest(plan), before);
}

TEST(DataReader, outside_the_cluster_and_of_streams_is_refused) {
  const Profile profile = examples::chain(2, 1e-6, 2e-6);
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  PlanRequest request{.profile = profile,
                      .cluster = cluster,
                      .schedule = "1f1b",
                      .microbatches = 2,
                      .stages = stages_of(examples::even_partition(2, 2)),
                      .data_reader = 2};
  const auto code = [&](auto build) {
    try {
      (void)build(request);
    } catch (const Error& error) {
      return error.exit_code();
    }
    return ExitCode::done;
  };
  EXPECT_EQ(code(build_plan), ExitCode::infeasible);
  request.data_reader = 1;
  EXPECT_EQ(code(build_plan), ExitCode::done);
  EXPECT_EQ(code(stream_plan), ExitCode::infeasible);
}

}  // namespace
}  // namespace sluice
