#include "runtime/comm/probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "runtime/comm/algorithm_probe.h"

namespace sluice {
namespace {

TEST(ProbePairs, takes_two_ranks_of_a_node_and_first_ranks_of_neighbours) {
  EXPECT_EQ(probe_pairs(std::vector{0, 0, 0, 1, 1, 2}, 4), (std::vector<Edge>{{0, 1}, {3, 4}, {0, 3}, {3, 5}}));
  EXPECT_EQ(probe_pairs(std::vector{0, 1, 0, 1}, 4), (std::vector<Edge>{{0, 2}, {1, 3}, {0, 1}}));
  EXPECT_EQ(probe_pairs(std::vector{0, 0, 1, 1, 2, 2}, 1), (std::vector<Edge>{{0, 1}, {0, 2}}));
  EXPECT_TRUE(probe_pairs(std::vector{0}, 4).empty());
}

TEST(ProbeGroups, takes_all_ranks_the_first_of_each_node_two_nodes_and_one) {
  const Cluster cluster = uniform_cluster(3, 2, {}, {});
  EXPECT_EQ(probe_groups(cluster),
            (std::vector<Group>{
                {0, {0, 1, 2, 3, 4, 5}}, {5, {0, 1, 2, 3, 4, 5}}, {0, {0, 2, 4}}, {0, {0, 1, 2, 3}}, {0, {0, 1}}}));
}

TEST(ProbeGroups, takes_each_set_of_members_once) {
  EXPECT_EQ(probe_groups(uniform_cluster(1, 2, {}, {})), (std::vector<Group>{{0, {0, 1}}}));
  EXPECT_EQ(probe_groups(uniform_cluster(2, 1, {}, {})), (std::vector<Group>{{0, {0, 1}}}));
  EXPECT_EQ(probe_groups(uniform_cluster(2, 2, {}, {})),
            (std::vector<Group>{{0, {0, 1, 2, 3}}, {3, {0, 1, 2, 3}}, {0, {0, 2}}, {0, {0, 1}}}));
  EXPECT_TRUE(probe_groups(uniform_cluster(1, 1, {}, {})).empty());
}

TEST(ProbeGroups, leaves_out_the_rest_of_a_large_cluster) {
  EXPECT_EQ(probe_groups(uniform_cluster(100, 4, {}, {})).front().members.size(), 64U);
  EXPECT_EQ(probe_groups(uniform_cluster(3, 100, {}, {})).front().members.size(), 200U) << "two nodes at least";
}

/// Short, for tests.
ProbeSettings quick(std::int64_t largest_bytes, std::function<void(const std::string&)> log = {}) {
  return {.largest_bytes = largest_bytes, .largest_payload = 1 << 16, .algorithm_seconds = 0.1, .log = std::move(log)};
}

/// Every figure of a cluster, in a form that ranks can compare.
std::string figures(const Cluster& cluster) {
  std::string all;
  for (const LinkClass& link : {cluster.intra_node, cluster.inter_node})
    all += text(std::hexfloat, link.latency_s, " ", link.bandwidth_bytes_per_s, " ");
  for (const AlgorithmCost& cost : cluster.algorithm_costs)
    for (const LinkClass& link : {cost.intra_node, cost.inter_node})
      all += text(std::hexfloat, link.latency_s, " ", link.bandwidth_bytes_per_s, " ", cost.median_error, " ",
                  cost.segmented, " ", cost.from_bytes, " ");
  for (const RankSpec& rank : cluster.ranks) all += text(rank.node, " ", rank.memory_bytes, " ");
  return all;
}

TEST(Probe, gives_all_ranks_the_same_valid_cluster) {
  Communicator world = Communicator::world();
  const Cluster cluster = probe(world, quick(1 << 20));
  validate(cluster);
  EXPECT_EQ(std::ssize(cluster.ranks), world.size());
  for (std::size_t rank = 0; rank < cluster.ranks.size(); ++rank)
    EXPECT_EQ(cluster.ranks[rank].node, world.node_of_rank()[rank]);
  EXPECT_EQ(cluster.node_names, world.node_names());
  EXPECT_EQ(world.broadcast(figures(cluster)), figures(cluster));
}

TEST(Probe, gives_every_algorithm_figures_that_a_class_without_links_takes_from_the_links) {
  Communicator world = Communicator::world();
  const Cluster cluster = probe(world, quick(1 << 14));
  std::size_t costs = 0;
  for (const CollectiveKind kind : {CollectiveKind::multicast, CollectiveKind::all_reduce, CollectiveKind::all_to_all})
    for (const Algorithm algorithm : algorithms(kind)) {
      SCOPED_TRACE(text(to_string(kind), " ", to_string(algorithm)));
      std::vector<std::int64_t> from;
      for (const AlgorithmCost& cost : cluster.algorithm_costs)
        if (cost.collective == kind && cost.algorithm == algorithm) {
          if (!cost.segmented) from.push_back(cost.from_bytes);
          ++costs;
        }
      if (world.size() == 1 || (world.size() == 2 && kind == CollectiveKind::multicast)) {
        EXPECT_TRUE(from.empty()) << "one message is the link's";
        continue;
      }
      EXPECT_TRUE(std::is_sorted(from.begin(), from.end()));
      ASSERT_GE(from.size(), 2U) << "messages of 1 KiB and of 16 KiB are told apart";
      EXPECT_EQ(from[0], 0);
      EXPECT_EQ(std::adjacent_find(from.begin(), from.end()), from.end());
    }
  EXPECT_EQ(cluster.algorithm_costs.size(), costs);
  if (world.size() == 1) return;
  const bool several_nodes = world.node_names().size() > 1;
  const bool shared_node = std::ssize(world.node_names()) < world.size();
  for (const AlgorithmCost& cost : cluster.algorithm_costs) {
    SCOPED_TRACE(text(to_string(cost.collective), " ", to_string(cost.algorithm)));
    if (!several_nodes) {
      EXPECT_DOUBLE_EQ(cost.inter_node.bandwidth_bytes_per_s, cluster.inter_node.bandwidth_bytes_per_s);
    }
    if (!shared_node) {
      EXPECT_DOUBLE_EQ(cost.intra_node.bandwidth_bytes_per_s, cluster.intra_node.bandwidth_bytes_per_s);
    }
    EXPECT_GE(cost.median_error, 0);
    EXPECT_TRUE(std::isfinite(cost.median_error));
  }
}

TEST(Probe, leaves_the_byte_counts_of_the_run_alone) {
  Communicator world = Communicator::world();
  (void)probe(world, quick(1 << 14));
  EXPECT_EQ(world.sent_bytes(), (LinkBytes{0, 0}));
  EXPECT_EQ(world.received_bytes(), (LinkBytes{0, 0}));
}

TEST(Probe, says_on_rank_0_what_it_measured_and_what_it_could_not) {
  Communicator world = Communicator::world();
  std::string lines;
  const Cluster cluster = probe(world, quick(1 << 14, [&](const std::string& line) { lines += line + "\n"; }));
  if (world.rank() != 0) {
    EXPECT_EQ(lines, "");
    return;
  }
  const bool several_nodes = world.node_names().size() > 1;
  const bool shared_node = std::ssize(world.node_names()) < world.size();
  const auto says = [&](const char* words) { return lines.find(words) != std::string::npos; };
  EXPECT_EQ(says("intra-node link: latency"), shared_node) << lines;
  EXPECT_EQ(says("inter-node link: latency"), several_nodes) << lines;
  EXPECT_EQ(says("one node:"), shared_node && !several_nodes) << lines;
  EXPECT_EQ(says("one rank on each node:"), !shared_node && several_nodes) << lines;
  EXPECT_EQ(says("one rank alone:"), world.size() == 1) << lines;
  EXPECT_EQ(says("multicast scatter_allgather: predicted against measured"), world.size() > 2) << lines;
  EXPECT_EQ(says("all collectives: predicted against measured: median error"), world.size() > 1) << lines;
  EXPECT_TRUE((shared_node && several_nodes) || cluster.intra_node == cluster.inter_node);
}

}  // namespace
}  // namespace sluice
