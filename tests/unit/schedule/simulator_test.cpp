#include "core/simulator.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

TEST(Simulator, gives_the_closed_forms_of_equal_stages_and_free_links) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int workers = 1; workers <= 8; ++workers)
      for (const int microbatches : {1, 2, 3, 4, 5, 7, 8, 16, 33})
        for (const auto& [forward_ns, backward_ns] : {std::pair{1, 1}, {1, 2}, {7, 11}, {1'234'567, 7'654'321}}) {
          SCOPED_TRACE(testing::Message() << schedule << ", K=" << workers << ", M=" << microbatches);
          const Plan plan =
              examples::textbook_plan(schedule, workers, microbatches, 1e-9 * forward_ns, 1e-9 * backward_ns);
          const Timeline timeline = simulate(plan);
          const std::int64_t slots = microbatches + workers - 1;
          EXPECT_EQ(makespan_ns(timeline), slots * (forward_ns + backward_ns));
          EXPECT_NEAR(bubble_fraction(timeline, program(plan, "step")), (workers - 1.0) / static_cast<double>(slots),
                      1e-12);
        }
}

// Layers take 10 ns forward and 20 ns backward, outputs have 100 B, auxiliaries 10 B, parameters 40 B; a message of n
// bytes takes 5 + n / 10 ns inside a node and 50 + n ns between nodes.
const Profile kProfile = examples::chain(2, 10e-9, 20e-9);
const LinkClass kIntra{.latency_s = 5e-9, .bandwidth_bytes_per_s = 1e10};
const LinkClass kInter{.latency_s = 50e-9, .bandwidth_bytes_per_s = 1e9};

Plan build(const Cluster& cluster, const Partition& partition, int microbatches = 1,
           Algorithm algorithm = Algorithm::hierarchical) {
  return build_plan({.profile = kProfile,
                     .cluster = cluster,
                     .schedule = "1f1b",
                     .microbatches = microbatches,
                     .stages = stages_of(partition),
                     .multicast = algorithm});
}

TEST(Simulator, adds_latency_and_bytes_over_bandwidth) {
  const Partition joint{{0, 1, 2}, {0, 1, 2}};
  // Forward 10, out0 15, forward 10, backward 20, gradient 15, backward 20.
  EXPECT_EQ(makespan_ns(simulate(build(uniform_cluster(1, 2, kIntra, kInter), joint))), 90);
  EXPECT_EQ(makespan_ns(simulate(build(uniform_cluster(2, 1, kIntra, kInter), joint))), 10 + 150 + 10 + 20 + 150 + 20);
}

TEST(Simulator, lengthens_the_cycle_of_1f1b_by_the_latency_that_its_warm_up_cannot_hide) {
  // K micro-batches are in flight at worker 0, and each goes through all workers and 2 (K - 1) messages of c before its
  // backward there: (F + B) + 2 c (K - 1) / K per micro-batch.
  for (int workers = 2; workers <= 6; ++workers) {
    const Profile profile = examples::chain(workers, 100e-9, 100e-9);
    const Cluster cluster = uniform_cluster(1, workers, {.latency_s = 50e-9}, {});
    const auto makespan_of = [&](int microbatches) {
      return makespan_ns(simulate(build_plan({.profile = profile,
                                              .cluster = cluster,
                                              .schedule = "1f1b",
                                              .microbatches = microbatches,
                                              .stages = stages_of(examples::even_partition(workers, workers))})));
    };
    EXPECT_EQ(makespan_of(20 * workers) - makespan_of(10 * workers), 10 * (workers * 200 + 2 * 50 * (workers - 1)))
        << "K=" << workers;
  }
}

TEST(Simulator, prices_auxiliaries_and_weights_of_displaced_layers) {
  const Plan plan = build(uniform_cluster(1, 2, kIntra, kInter), {{0, 1, 2}, {0, 2, 2}});
  // Forward 10, out0 15, forward 10, aux1 6, both backwards 40, weights of layer 1: 9.
  EXPECT_EQ(makespan_ns(simulate(plan)), 90);
}

TEST(Simulator, counts_payload_bytes_by_link_class) {
  // Worker 0 runs layer 0 forward, worker 1 layer 1 forward, worker 2 both backward; 0 | 1 2 on two nodes.
  Cluster cluster = uniform_cluster(2, 2, kIntra, kInter);
  cluster.ranks = {{.node = 0}, {.node = 1}, {.node = 1}};
  const Partition partition{{0, 1, 2, 2}, {0, 0, 0, 2}};
  const auto intra = [](const LinkBytes& bytes) { return bytes[static_cast<std::size_t>(LinkKind::intra_node)]; };
  const auto inter = [](const LinkBytes& bytes) { return bytes[static_cast<std::size_t>(LinkKind::inter_node)]; };

  const Timeline once = simulate(build(cluster, partition, 3, Algorithm::hierarchical));
  EXPECT_EQ(inter(once.ranks[0].sent_bytes), 3 * (100 + 10)) << "out0 crosses once for both its readers";
  EXPECT_EQ(intra(once.ranks[1].sent_bytes), 3 * (100 + 10)) << "out0 passed on, and aux1";
  EXPECT_EQ(inter(once.ranks[2].sent_bytes), 40) << "weights of layer 0";
  EXPECT_EQ(intra(once.ranks[2].sent_bytes), 40) << "weights of layer 1";
  EXPECT_EQ(inter(once.ranks[2].received_bytes), 3 * 10);

  const Timeline twice = simulate(build(cluster, partition, 3, Algorithm::flat));
  EXPECT_EQ(inter(twice.ranks[0].sent_bytes), 3 * (2 * 100 + 10));
  EXPECT_EQ(intra(twice.ranks[1].sent_bytes), 3 * 10);
}

TEST(Simulator, lets_the_ranks_of_a_node_share_its_nic) {
  // Two equal pipelines would be two plans; two senders on one node are two forward workers that feed worker 2.
  Cluster cluster = uniform_cluster(2, 2, kIntra, kInter);
  cluster.ranks = {{.node = 0}, {.node = 0}, {.node = 1}};
  const Plan plan = build(cluster, {{0, 1, 2, 2}, {0, 0, 0, 2}});
  // out0 is ready at 10 and keeps the NIC until 160, aux0 queues behind it until 220. Layer 1 runs 25 to 35, but its
  // aux1 finds the NIC taken: 220 to 280. Then 40 of backward and both weights behind each other: 90 + 90.
  EXPECT_EQ(makespan_ns(simulate(plan)), 280 + 40 + 180);
}

TEST(Simulator, sends_one_message_at_a_time_to_different_nodes) {
  const Plan plan = build(uniform_cluster(3, 1, kIntra, kInter), {{0, 1, 2, 2}, {0, 0, 0, 2}});
  // Rank 0 sends out0 to rank 1 from 10 to 160, to rank 2 until 310, then aux0 until 370. Rank 1 has its aux1 ready at
  // 170, but rank 2 receives until 370: 430. Backward until 470, weights to rank 0 until 560, to rank 1 until 650.
  EXPECT_EQ(makespan_ns(simulate(plan)), 650);
}

TEST(Simulator, sends_and_receives_the_same_bytes_and_keeps_each_rank_in_order) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_plan(seed);
    for (const Program& program : plan.programs) {
      const Timeline timeline = simulate(plan, program.name);
      LinkBytes balance{};
      for (const RankTimeline& rank : timeline.ranks) {
        std::int64_t last_ns = 0;
        LinkBytes sent{};
        for (const InstructionTime& time : rank.instructions) {
          for (std::size_t kind = 0; kind < sent.size(); ++kind) sent[kind] += time.sent_bytes[kind];
          ASSERT_LE(last_ns, time.start_ns);
          ASSERT_LE(time.start_ns, time.end_ns);
          last_ns = time.end_ns;
        }
        ASSERT_EQ(sent, rank.sent_bytes) << "of the waits, and of the messages";
        for (std::size_t kind = 0; kind < balance.size(); ++kind)
          balance[kind] += rank.sent_bytes[kind] - rank.received_bytes[kind];
      }
      ASSERT_EQ(balance, LinkBytes{});
      ASSERT_EQ(simulate(plan, program.name), timeline) << "two simulations differ";
    }
  }
}

TEST(Simulator, hands_each_instruction_over_once_and_sums_up_what_a_timeline_has) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_plan(seed);
    for (const Program& program : plan.programs) {
      const Timeline timeline = simulate(plan, program.name);
      ProgramSource source(program);
      SimulationTotals totals(static_cast<int>(program.ranks.size()));
      simulate(plan, source, totals);
      std::int64_t instructions = 0;
      LinkBytes sent{};
      for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
        instructions += std::ssize(program.ranks[rank]);
        ASSERT_EQ(totals.compute_ns(static_cast<Rank>(rank)), compute_ns(timeline.ranks[rank], program.ranks[rank]));
        for (std::size_t kind = 0; kind < sent.size(); ++kind) sent[kind] += timeline.ranks[rank].sent_bytes[kind];
      }
      ASSERT_EQ(totals.instructions(), instructions);
      ASSERT_EQ(totals.makespan_ns(), makespan_ns(timeline));
      ASSERT_EQ(totals.sent_bytes(), sent);
      ASSERT_EQ(totals.bubble_fraction(), bubble_fraction(timeline, program));
    }
  }
}

TEST(Simulator, refuses_links_and_ranks_that_take_for_ever) {
  const Partition joint{{0, 1, 2}, {0, 1, 2}};
  EXPECT_THROW(static_cast<void>(simulate(build(uniform_cluster(1, 2, {0, 1e-300}, {}), joint))), Error);
  EXPECT_THROW(static_cast<void>(simulate(build(uniform_cluster(1, 2, {1e9, 1}, {}), joint, 100))), Error);
  Cluster slow = uniform_cluster(1, 2, kIntra, kInter);
  slow.ranks[1].speed = 1e-300;
  EXPECT_THROW(static_cast<void>(simulate(build(slow, joint))), Error);
}

TEST(Simulator, refuses_a_program_that_stalls) {
  Plan plan = examples::textbook_plan("1f1b", 2, 2);
  std::erase_if(plan.programs[0].ranks[0],
                [](const Instruction& instruction) { return instruction.op == Op::multicast_start; });
  EXPECT_THROW((void)simulate(plan), Error);
}

TEST(Simulator, an_all_reduce_begins_with_the_last_member_and_takes_the_slowest_edge) {
  const Profile profile = examples::chain(1, 10e-9, 20e-9);
  Cluster cluster = uniform_cluster(2, 2, kIntra, kInter);
  cluster.ranks = {{.node = 0}, {.node = 0}, {.node = 1}};
  const Plan plan = build_plan({.profile = profile,
                                .cluster = cluster,
                                .schedule = "1f1b",
                                .microbatches = 4,
                                .stages = {{Work::forward, 0, {0}, {0, 1, 2}}, {Work::backward, 0, {0}, {0, 1, 2}}},
                                .all_reduce = Algorithm::ring});
  const Timeline timeline = simulate(plan);
  // Rank 0 has two micro-batches of 30 each. 40 B in chunks of 4, 3, 3 floats: the ring 0 1 2 carries 56, 52, 52 B in
  // four rounds. Between nodes each takes 50 and a chunk; the largest goes from edge 1 2 in one on to 2 0 in the next.
  EXPECT_EQ(makespan_ns(timeline), 2 * 30 + 4 * 50 + 12 + 16 + 16 + 12);
  EXPECT_EQ(timeline.ranks[0].sent_bytes, (LinkBytes{56, 0}));
  EXPECT_EQ(timeline.ranks[1].sent_bytes, (LinkBytes{0, 52}));
  EXPECT_EQ(timeline.ranks[2].sent_bytes, (LinkBytes{0, 52}));
  EXPECT_EQ(timeline.ranks[1].received_bytes, (LinkBytes{56, 0}));
}

TEST(Simulator, replicas_share_the_work) {
  // Two replicas of the slow half keep pace with the fast one.
  Profile profile = examples::chain(2, 10e-9, 20e-9);
  profile.costs[0].forward_s = 20e-9;
  profile.costs[0].backward_input_s = 40e-9;
  const Cluster cluster = uniform_cluster(1, 3, {}, {});
  const auto makespan_of = [&](int microbatches) {
    return makespan_ns(simulate(build_plan({.profile = profile,
                                            .cluster = cluster,
                                            .schedule = "1f1b",
                                            .microbatches = microbatches,
                                            .stages = {{Work::forward, 0, {0}, {0, 1}},
                                                       {Work::forward, 1, {1}, {2}},
                                                       {Work::backward, 0, {0}, {0, 1}},
                                                       {Work::backward, 1, {1}, {2}}}})));
  };
  EXPECT_EQ(makespan_of(60) - makespan_of(40), 20 * 30);
}

TEST(Simulator, recomputing_takes_the_forwards_time) {
  const Plan plan = build_plan(
      {.profile = kProfile,
       .cluster = uniform_cluster(1, 1, {}, {}),
       .schedule = "1f1b",
       .microbatches = 3,
       .stages = {{Work::forward, 0, {0, 1}, {0}}, {Work::backward, 0, {0, 1}, {0}}, {Work::recompute, 0, {1}, {0}}}});
  EXPECT_EQ(makespan_ns(simulate(plan)), 3 * (2 * 10 + 10 + 2 * 20));
}

TEST(Simulator, all_reduces_over_the_same_links_follow_each_other) {
  const Plan plan = build_plan({.profile = kProfile,
                                .cluster = uniform_cluster(1, 2, kIntra, kInter),
                                .schedule = "1f1b",
                                .microbatches = 2,
                                .stages = {{Work::forward, 0, {0, 1}, {0, 1}}, {Work::backward, 0, {0, 1}, {0, 1}}}});
  // Two layers of 40 B: each ring takes 2 * 5 + 40 / 10.
  EXPECT_EQ(makespan_ns(simulate(plan)), 2 * 10 + 2 * 20 + 2 * (2 * 5 + 4));
}

}  // namespace
}  // namespace sluice
