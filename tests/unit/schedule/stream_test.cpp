#include "optimizer/schedule/stream.h"

#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "core/simulator.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

PlanRequest line(const Profile& profile, const Cluster& cluster, const std::string& schedule, int workers,
                 int microbatches) {
  return {.profile = profile,
          .cluster = cluster,
          .schedule = schedule,
          .microbatches = microbatches,
          .stages = stages_of(examples::even_partition(static_cast<int>(profile.model.layers.size()), workers))};
}

std::vector<std::vector<Instruction>> listed(InstructionSource& source, int ranks) {
  std::vector<std::vector<Instruction>> lists(static_cast<std::size_t>(ranks));
  for (Rank rank = 0; rank < ranks; ++rank)
    while (const Instruction* instruction = source.next(rank))
      lists[static_cast<std::size_t>(rank)].push_back(*instruction);
  return lists;
}

// Times are multiples of 1/512 s, whole in nanoseconds and exact in binary, so that times that should be equal are.
TEST(Stream, makes_the_instructions_of_the_stored_plan) {
  for (const char* schedule : {"1f1b", "gpipe"})
    for (int workers = 1; workers <= 9; ++workers)
      for (const int microbatches : {1, 2, 3, 4, 5, 7, 8, 9, 16, 33})
        for (const auto& [forward, backward] :
             {std::pair{1, 1}, {1, 2}, {2, 1}, {1, 3}, {3, 1}, {5, 7}, {7, 5}, {1, 40}})
          for (const int spare_ranks : {0, 2}) {
            SCOPED_TRACE(testing::Message() << schedule << ", K=" << workers << ", M=" << microbatches
                                            << ", F=" << forward << ", B=" << backward);
            const Profile profile = examples::chain(2 * workers, forward / 512.0, backward / 512.0);
            const Cluster cluster = uniform_cluster(1, workers + spare_ranks, {}, {});
            const PlanRequest request = line(profile, cluster, schedule, workers, microbatches);
            const Plan stored = build_plan(request);
            const StreamedPlan streamed = stream_plan(request);
            ASSERT_EQ(listed(*streamed.step, workers + spare_ranks), program(stored, "step").ranks);
            ASSERT_EQ(streamed.plan.groups, stored.groups);
            ASSERT_EQ(streamed.plan.transfers, stored.transfers);
            ASSERT_EQ(streamed.plan.microbatches, microbatches);
          }
}

TEST(Stream, simulates_as_the_stored_plan_does_where_messages_take_time) {
  const Profile profile = examples::chain(6, 3 / 512.0, 5 / 512.0);
  const Cluster cluster = uniform_cluster(2, 3, {.latency_s = 1e-4, .bandwidth_bytes_per_s = 1e5},
                                          {.latency_s = 1e-3, .bandwidth_bytes_per_s = 5e4});
  const PlanRequest request = line(profile, cluster, "1f1b", 6, 20);
  const Plan stored = build_plan(request);
  const Timeline timeline = simulate(stored);
  StreamedPlan streamed = stream_plan(request);
  SimulationTotals totals(6);
  simulate(streamed.plan, *streamed.step, totals);
  EXPECT_EQ(totals.makespan_ns(), makespan_ns(timeline));
  EXPECT_EQ(totals.bubble_fraction(), bubble_fraction(timeline, program(stored, "step")));
}

TEST(Stream, takes_the_closed_forms_time_on_many_ranks) {
  const int workers = 200, microbatches = 300;
  const Profile profile = examples::chain(workers, 1e-6, 2e-6);
  const Cluster cluster = uniform_cluster(1, workers, {}, {});
  StreamedPlan streamed = stream_plan(line(profile, cluster, "1f1b", workers, microbatches));
  SimulationTotals totals(workers);
  simulate(streamed.plan, *streamed.step, totals);
  EXPECT_EQ(totals.makespan_ns(), (microbatches + workers - 1) * 3000);
  EXPECT_NEAR(totals.bubble_fraction(), (workers - 1.0) / (microbatches + workers - 1), 1e-12);
}

TEST(Stream, runs_to_the_end_where_positions_differ) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Profile profile = examples::chain(6, 1e-3, 1e-3);
    for (LayerCost& cost : profile.costs) cost.forward_s = static_cast<double>(random() % 1000) * 1e-6;
    const Cluster cluster = uniform_cluster(2, 3, {.latency_s = 1e-3}, {.latency_s = 1e-2});
    StreamedPlan streamed = stream_plan(line(profile, cluster, "1f1b", 6, 12));
    SimulationTotals totals(6);
    EXPECT_NO_THROW(simulate(streamed.plan, *streamed.step, totals));
  }
}

TEST(Stream, refuses_what_is_no_line) {
  const Profile profile = examples::chain(4, 1e-3, 1e-3);
  const Cluster cluster = uniform_cluster(1, 4, {}, {});
  PlanRequest request = line(profile, cluster, "1f1b", 2, 4);
  request.stages = stages_of({{0, 2, 4}, {0, 3, 4}});
  EXPECT_THROW((void)stream_plan(request), Error) << "independent cuts";
  request.stages = {{Work::forward, 0, {0, 1, 2, 3}, {0, 1}}, {Work::backward, 0, {0, 1, 2, 3}, {0, 1}}};
  EXPECT_THROW((void)stream_plan(request), Error) << "replicas";
  request.stages = stages_of({{0, 2, 4}, {0, 2, 4}});
  for (Stage& stage : request.stages) stage.owners = {1 - stage.index};
  EXPECT_THROW((void)stream_plan(request), Error) << "position 0 on rank 1";
  EXPECT_THROW((void)stream_plan(line(profile, cluster, "sequential", 1, 4)), Error) << "another schedule";
}

}  // namespace
}  // namespace sluice
