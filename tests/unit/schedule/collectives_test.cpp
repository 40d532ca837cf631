#include <gtest/gtest.h>

#include <cmath>

#include "core/collective_progress.h"
#include "core/index.h"
#include "core/route_choice.h"
#include "core/simulator.h"

/// Collectives as the simulator plays them, each alone.
namespace sluice {
namespace {

constexpr LinkClass kInside{.latency_s = 2e-6, .bandwidth_bytes_per_s = 1e10};
constexpr LinkClass kBetween{.latency_s = 50e-6, .bandwidth_bytes_per_s = 1e9};

/// One call over all ranks from rank 0, which all members start at 0, the root last.
struct Played {
  SimulationTotals totals;
  double seconds = 0;
};

Plan plan_of(const Cluster& cluster, Payload payload, const Route& route, std::int64_t bytes) {
  Plan plan;
  plan.cluster = cluster;
  Group& everyone = plan.groups.emplace_back();
  for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank) everyone.members.push_back(rank);
  plan.stages.emplace_back();  // takes no time
  plan.transfers.push_back({.payload = payload, .group = 0, .bytes = bytes, .route = route});
  return plan;
}

Played play(const Cluster& cluster, Payload payload, const Route& route, std::int64_t bytes) {
  const Plan plan = plan_of(cluster, payload, route, bytes);
  const bool sums = payload == Payload::weight_gradients;
  Program program{.name = "step",
                  .ranks = {cluster.ranks.size(),
                            {{.op = sums ? Op::all_reduce_start : Op::multicast_start, .transfer = 0},
                             {.op = sums ? Op::all_reduce_wait : Op::multicast_wait, .transfer = 0}}}};
  program.ranks[0].insert(program.ranks[0].begin(), {.op = Op::forward, .stage = 0});
  ProgramSource source(program);
  Played played{SimulationTotals(static_cast<int>(cluster.ranks.size()))};
  simulate(plan, source, played.totals);
  played.seconds = 1e-9 * static_cast<double>(played.totals.makespan_ns());
  return played;
}

double multicast_s(int nodes, const Route& route, std::int64_t bytes) {
  return play(uniform_cluster(nodes, 1, kInside, kBetween), Payload::activation, route, bytes).seconds;
}

double all_reduce_s(const Cluster& cluster, Algorithm algorithm, std::int64_t bytes) {
  return play(cluster, Payload::weight_gradients, {.algorithm = algorithm}, bytes).seconds;
}

// Hockney's formulas (Thakur, Rabenseifner, Gropp 2005): p ranks, each on a node of its own.

TEST(Collectives, flat_sends_to_one_after_the_other) {
  for (const int p : {2, 3, 8})
    EXPECT_NEAR(multicast_s(p, {.algorithm = Algorithm::flat}, 1'000'000), (p - 1) * message_time(kBetween, 1'000'000),
                1e-8);
}

TEST(Collectives, binomial_trees_double_the_holders_in_each_round) {
  for (const Algorithm algorithm : {Algorithm::binomial, Algorithm::mpi})
    for (const int p : {2, 3, 4, 5, 8, 13})
      EXPECT_NEAR(multicast_s(p, {.algorithm = algorithm}, 1'000'000),
                  std::ceil(std::log2(p)) * message_time(kBetween, 1'000'000), 1e-8)
          << p;
}

TEST(Collectives, chains_pass_segments_on_while_the_next_arrive) {
  for (const int p : {2, 3, 8})
    for (const int segments : {1, 4, 100})
      EXPECT_NEAR(multicast_s(p, {.algorithm = Algorithm::chain, .segment_bytes = 1'000'000 / segments}, 1'000'000),
                  (p - 2 + segments) * message_time(kBetween, 1'000'000 / segments), 1e-6)
          << p << " ranks, " << segments << " segments";
}

TEST(Collectives, scatter_and_allgather_send_about_twice_the_bytes_one_after_the_other) {
  for (const int p : {3, 5, 9}) {
    const std::int64_t bytes = 1'000'000 * (p - 1);
    const double part_s = message_time(kBetween, 1'000'000);
    const double seconds = multicast_s(p, {.algorithm = Algorithm::scatter_allgather}, bytes);
    EXPECT_GE(seconds, (p - 1) * part_s);
    EXPECT_LE(seconds, (2 * (p - 1) - 1) * part_s + 1e-6) << p;
  }
}

TEST(Collectives, rings_take_two_rounds_per_member_but_one) {
  for (const int r : {2, 3, 8}) {
    const double round_s = message_time(kBetween, 4'000'000);
    EXPECT_NEAR(all_reduce_s(uniform_cluster(r, 1, kInside, kBetween), Algorithm::ring, 4'000'000 * r),
                2 * (r - 1) * round_s, 1e-8);
  }
}

TEST(Collectives, rings_take_as_long_as_their_messages_one_by_one) {
  // hierarchical over nodes of one rank is a ring of leaders, and is played message by message.
  for (const int r : {2, 3, 8}) {
    const Cluster cluster = uniform_cluster(r, 1, kInside, kBetween);
    const std::int64_t bytes = 4 * 1000 * r;
    EXPECT_NEAR(all_reduce_s(cluster, Algorithm::ring, bytes), all_reduce_s(cluster, Algorithm::hierarchical, bytes),
                1e-9 * 2 * r);
  }
}

TEST(Collectives, take_as_long_as_route_choice_says) {
  Cluster cluster = uniform_cluster(3, 3, kInside, kBetween);
  cluster.ranks.resize(7);
  double slower = 1;  // each in another way than its links, and than what has its name in another collective
  for (const CollectiveKind kind : {CollectiveKind::multicast, CollectiveKind::all_reduce})
    for (const Algorithm algorithm : algorithms(kind)) {
      slower += 0.5;
      const auto measured = [&](LinkClass link) {
        return LinkClass{link.latency_s * slower, link.bandwidth_bytes_per_s / slower};
      };
      for (const std::int64_t from_bytes : {0, 1000, 100'000}) {
        slower += 0.1;
        cluster.algorithm_costs.push_back(
            {kind, algorithm, measured(kInside), measured(kBetween), 0, false, from_bytes});
      }
    }
  for (const Payload payload : {Payload::weights, Payload::weight_gradients})
    for (const Algorithm algorithm : algorithms(collective_of(payload)))
      for (const std::int64_t bytes : {0, 5, 1000, 40'001, 3'000'000})
        for (const std::int64_t segment_bytes : {0, 300, 100'000}) {
          if (segment_bytes > 0 && (payload == Payload::weight_gradients || bytes / segment_bytes > 100)) continue;
          const Route route{.algorithm = algorithm, .segment_bytes = segment_bytes};
          const Group everyone = plan_of(cluster, payload, route, bytes).groups[0];
          EXPECT_NEAR(play(cluster, payload, route, bytes).seconds,
                      collective_time(collective_of(payload), everyone, route, bytes, cluster), 1e-9)
              << to_string(algorithm) << ", " << bytes << " B in segments of " << segment_bytes;
        }
}

TEST(Collectives, an_all_reduce_by_nodes_goes_up_around_and_down) {
  const double up_s = message_time(kInside, 4000), round_s = message_time(kBetween, 2000);
  EXPECT_NEAR(all_reduce_s(uniform_cluster(2, 3, kInside, kBetween), Algorithm::hierarchical, 4000),
              2 * up_s + 2 * round_s + 2 * up_s, 1e-8);
}

TEST(Collectives, messages_take_what_was_measured_of_their_algorithm) {
  Cluster cluster = uniform_cluster(2, 2, kInside, kBetween);
  cluster.algorithm_costs.push_back({.collective = CollectiveKind::multicast,
                                     .algorithm = Algorithm::chain,
                                     .intra_node = {.latency_s = 1},
                                     .inter_node = {.latency_s = 10}});
  EXPECT_NEAR(play(cluster, Payload::weights, {.algorithm = Algorithm::chain}, 1000).seconds, 10 + 1, 1e-9);
  EXPECT_LT(play(cluster, Payload::weights, {.algorithm = Algorithm::tree}, 1000).seconds, 1);
}

TEST(Collectives, carry_the_bytes_of_their_moves) {
  Cluster cluster = uniform_cluster(3, 3, kInside, kBetween);
  cluster.ranks.resize(8);
  for (const Payload payload : {Payload::weights, Payload::weight_gradients})
    for (const Algorithm algorithm : algorithms(collective_of(payload)))
      for (const std::int64_t bytes : {0, 5, 1000, 40'001}) {
        const Route route{.algorithm = algorithm, .segment_bytes = payload == Payload::weights ? 300 : 0};
        const Plan plan = plan_of(cluster, payload, route, bytes);
        LinkBytes expected{};
        for (const Move& move : moves_of(plan, plan.transfers[0]))
          expected[static_cast<std::size_t>(link_between(cluster, move.from, move.to))] += move.bytes;
        EXPECT_EQ(play(cluster, payload, route, bytes).totals.sent_bytes(), expected)
            << to_string(algorithm) << ", " << bytes << " B";
        if (payload == Payload::weights && aware_of_nodes(algorithm)) {
          EXPECT_EQ(expected, (LinkBytes{5 * bytes, 2 * bytes})) << to_string(algorithm);
        }
      }
}

TEST(Collectives, a_member_is_done_once_it_has_received_and_passed_on_all) {
  const Cluster cluster = uniform_cluster(3, 1, kInside, kBetween);
  const Plan plan = plan_of(cluster, Payload::weights, {.algorithm = Algorithm::chain, .segment_bytes = 10}, 20);
  Collectives all;
  all.add(plan.groups[0], moves_of(plan, plan.transfers[0]));
  CollectiveProgress progress(all, 0);
  std::vector<int> begun;
  const auto begin = [&](int move) { begun.push_back(move); };
  progress.start(1, begin);
  progress.start(0, begin);
  EXPECT_EQ(begun, (std::vector<int>{0, 2})) << "both segments, from rank 0 to 1";
  progress.start(2, begin);
  progress.finish(0, begin);
  EXPECT_EQ(begun, (std::vector<int>{0, 2, 1})) << "the first segment is passed on";
  progress.finish(1, begin);
  EXPECT_FALSE(progress.done(0) || progress.done(1) || progress.done(2));
  progress.finish(2, begin);
  EXPECT_TRUE(progress.done(0));
  EXPECT_FALSE(progress.done(1));
  progress.finish(3, begin);
  EXPECT_TRUE(progress.done(1) && progress.done(2));
}

}  // namespace
}  // namespace sluice
