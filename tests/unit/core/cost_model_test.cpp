#include "core/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "tests/unit/core/small_models.h"

namespace sluice {
namespace {

TEST(CostModel, adds_the_layers_of_a_stage_by_work) {
  const Profile profile = small_models::profile_of_three();
  const std::vector<LayerId> layers{0, 2};
  EXPECT_DOUBLE_EQ(stage_time(profile, layers, Work::forward), 1 + 3);
  EXPECT_DOUBLE_EQ(stage_time(profile, layers, Work::backward), 110 + 330);
  EXPECT_DOUBLE_EQ(stage_time(profile, layers, Work::backward_input), 10 + 30);
  EXPECT_DOUBLE_EQ(stage_time(profile, layers, Work::backward_weight), 100 + 300);
  EXPECT_DOUBLE_EQ(update_time(profile, layers), 1);
}

TEST(CostModel, divides_compute_by_the_ranks_speed_and_gives_communication_no_time) {
  Plan plan = small_models::plan_of_three();
  plan.cluster.ranks[1].speed = 2;
  EXPECT_DOUBLE_EQ(instruction_time(plan, {.op = Op::forward, .stage = 0, .microbatch = 0}, 0), 3);
  EXPECT_DOUBLE_EQ(instruction_time(plan, {.op = Op::backward, .stage = 2, .microbatch = 0}, 1), 660.0 / 2);
  EXPECT_DOUBLE_EQ(instruction_time(plan, {.op = Op::optimizer_step, .stage = 2}, 1), 1.5 / 2);
  EXPECT_DOUBLE_EQ(instruction_time(plan, {.op = Op::multicast_wait, .transfer = 0, .microbatch = 0}, 1), 0);
  EXPECT_DOUBLE_EQ(instruction_time(plan, {.op = Op::load_input, .microbatch = 0}, 0), 0);
}

TEST(CostModel, a_message_takes_latency_and_bytes_over_bandwidth) {
  EXPECT_DOUBLE_EQ(message_time({.latency_s = 2, .bandwidth_bytes_per_s = 10}, 30), 5);
  EXPECT_DOUBLE_EQ(message_time({}, 1 << 30), 0);
}

Cluster on_nodes(const std::vector<int>& node_of_rank) {
  Cluster cluster;
  for (const int node : node_of_rank) cluster.ranks.push_back({.node = node});
  cluster.node_names.assign(3, "node");
  return cluster;
}

std::vector<Edge> edges_of(const Group& group, Algorithm algorithm, const Cluster& cluster) {
  std::vector<Edge> edges;
  for (const Move& move : multicast_moves(group, {.algorithm = algorithm}, 100, cluster))
    edges.push_back({move.from, move.to});
  return edges;
}

TEST(MulticastEdges, flat_sends_from_the_root_to_each) {
  const Group group{.root = 1, .members = {0, 1, 2, 3}};
  EXPECT_EQ(edges_of(group, Algorithm::flat, on_nodes({0, 0, 1, 1})), (std::vector<Edge>{{1, 2}, {1, 3}, {1, 0}}));
}

TEST(MulticastEdges, hierarchical_enters_each_node_once_and_leaders_pass_on) {
  const Group group{.root = 1, .members = {0, 1, 2, 3, 4, 5}};
  EXPECT_EQ(edges_of(group, Algorithm::hierarchical, on_nodes({0, 0, 1, 2, 1, 2})),
            (std::vector<Edge>{{1, 2}, {1, 3}, {1, 0}, {2, 4}, {3, 5}}));
}

TEST(MulticastEdges, reach_every_member_once_through_ranks_that_hold_the_payload) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> nodes(8);
    for (int& node : nodes) node = static_cast<int>(random() % 3);
    Group group{.root = kNone, .members = {}};
    for (Rank rank = 0; rank < 8; ++rank)
      if (random() % 2 == 0) group.members.push_back(rank);
    if (group.members.empty()) continue;
    group.root = group.members[random() % group.members.size()];
    constexpr std::array kTrees{Algorithm::flat,     Algorithm::mpi,   Algorithm::hierarchical,
                                Algorithm::binomial, Algorithm::chain, Algorithm::tree};
    const Algorithm algorithm = kTrees[random() % kTrees.size()];

    std::set<Rank> holds{group.root};
    std::map<int, int> entries;
    for (const Edge& edge : edges_of(group, algorithm, on_nodes(nodes))) {
      EXPECT_TRUE(holds.contains(edge.from)) << "round " << round;
      EXPECT_TRUE(holds.insert(edge.to).second) << "round " << round;
      const int node = nodes[static_cast<std::size_t>(edge.to)];
      if (nodes[static_cast<std::size_t>(edge.from)] != node) ++entries[node];
    }
    EXPECT_EQ(holds, std::set<Rank>(group.members.begin(), group.members.end())) << "round " << round;
    if (!aware_of_nodes(algorithm)) continue;
    for (const auto& [node, count] : entries) EXPECT_EQ(count, 1) << "round " << round << ", node " << node;
  }
}

TEST(Ring, goes_through_each_node_once) {
  const Group group{.root = 3, .members = {0, 1, 2, 3, 5}};
  EXPECT_EQ(ring_edges(group, on_nodes({1, 0, 1, 0, 0, 2})),
            (std::vector<Edge>{{1, 3}, {3, 0}, {0, 2}, {2, 5}, {5, 1}}));
  EXPECT_TRUE(ring_edges({.root = 3, .members = {3}}, on_nodes({0, 0, 0, 0})).empty());
}

/// What the i-th member of a ring sends, chunk by chunk as Patarasuk and Yuan do it.
std::int64_t bytes_sent_step_by_step(std::int64_t bytes, int members, int member) {
  std::vector<std::int64_t> chunks(static_cast<std::size_t>(members), 0);
  for (std::int64_t value = 0; value < bytes / 4; ++value) chunks[static_cast<std::size_t>(value % members)] += 4;
  chunks.back() += bytes % 4;
  const auto chunk = [&](int index) { return chunks[static_cast<std::size_t>((index + 2 * members) % members)]; };
  std::int64_t sent = 0;
  for (int step = 0; step < members - 1; ++step) sent += chunk(member - step) + chunk(member + 1 - step);
  return sent;
}

TEST(Ring, carries_two_r_minus_one_times_the_bytes_exactly) {
  for (const int members : {1, 2, 3, 4, 7})
    for (const std::int64_t bytes : {0, 1, 2, 5, 40, 41, 1001}) {
      std::int64_t sum = 0;
      for (int edge = 0; edge < members; ++edge) {
        const std::int64_t sent = ring_bytes(bytes, members, edge);
        EXPECT_EQ(sent, bytes_sent_step_by_step(bytes, members, edge)) << members << " members, " << bytes << " B";
        sum += sent;
      }
      EXPECT_EQ(sum, 2 * (members - 1) * bytes) << members << " members, " << bytes << " B";
    }
}

TEST(Ring, cuts_a_payload_into_chunks_of_whole_floats_without_gaps) {
  for (const int members : {1, 2, 3, 4, 7})
    for (const std::int64_t bytes : {0, 3, 4, 8, 28, 40, 41, 1002}) {
      std::int64_t end = 0;
      for (int index = 0; index < members; ++index) {
        const RingChunk chunk = ring_chunk(bytes, members, index);
        EXPECT_EQ(chunk.offset, end) << members << " members, " << bytes << " B";
        EXPECT_EQ(chunk.offset % 4, 0) << members << " members, " << bytes << " B";
        end += chunk.bytes;
      }
      EXPECT_EQ(end, bytes) << members << " members";
      EXPECT_EQ(ring_chunk(bytes, members, members).bytes, ring_chunk(bytes, members, 0).bytes);
    }
}

TEST(Ring, takes_the_latency_of_its_rounds) {
  EXPECT_DOUBLE_EQ(ring_time({.latency_s = 2, .bandwidth_bytes_per_s = 10}, 60, 4), 6 * 2 + 6);
}

}  // namespace
}  // namespace sluice
