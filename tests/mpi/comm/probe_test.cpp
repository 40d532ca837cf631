#include "runtime/comm/probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"

namespace sluice {
namespace {

TEST(ProbePairs, takes_two_ranks_of_a_node_and_first_ranks_of_neighbours) {
  EXPECT_EQ(probe_pairs(std::vector{0, 0, 0, 1, 1, 2}, 4), (std::vector<Edge>{{0, 1}, {3, 4}, {0, 3}, {3, 5}}));
  EXPECT_EQ(probe_pairs(std::vector{0, 1, 0, 1}, 4), (std::vector<Edge>{{0, 2}, {1, 3}, {0, 1}}));
  EXPECT_EQ(probe_pairs(std::vector{0, 0, 1, 1, 2, 2}, 1), (std::vector<Edge>{{0, 1}, {0, 2}}));
  EXPECT_TRUE(probe_pairs(std::vector{0}, 4).empty());
}

/// Every figure of a cluster, in a form that ranks can compare.
std::string figures(const Cluster& cluster) {
  std::string all;
  for (const LinkClass& link : {cluster.intra_node, cluster.inter_node})
    all += text(std::hexfloat, link.latency_s, " ", link.bandwidth_bytes_per_s, " ");
  for (const RankSpec& rank : cluster.ranks) all += text(rank.node, " ", rank.memory_bytes, " ");
  return all;
}

TEST(Probe, gives_all_ranks_the_same_valid_cluster) {
  Communicator world = Communicator::world();
  const Cluster cluster = probe(world, {.largest_bytes = 1 << 20, .log = {}});
  validate(cluster);
  EXPECT_EQ(std::ssize(cluster.ranks), world.size());
  for (std::size_t rank = 0; rank < cluster.ranks.size(); ++rank)
    EXPECT_EQ(cluster.ranks[rank].node, world.node_of_rank()[rank]);
  EXPECT_EQ(cluster.node_names, world.node_names());
  EXPECT_EQ(world.broadcast(figures(cluster)), figures(cluster));
}

TEST(Probe, leaves_the_byte_counts_of_the_run_alone) {
  Communicator world = Communicator::world();
  (void)probe(world, {.largest_bytes = 1 << 14, .log = {}});
  EXPECT_EQ(world.sent_bytes(), (LinkBytes{0, 0}));
  EXPECT_EQ(world.received_bytes(), (LinkBytes{0, 0}));
}

TEST(Probe, says_on_rank_0_what_it_measured_and_what_it_could_not) {
  Communicator world = Communicator::world();
  std::string lines;
  const Cluster cluster =
      probe(world, {.largest_bytes = 1 << 14, .log = [&](const std::string& line) { lines += line + "\n"; }});
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
  EXPECT_TRUE((shared_node && several_nodes) || cluster.intra_node == cluster.inter_node);
}

}  // namespace
}  // namespace sluice
