#include "core/cluster.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/core/small_models.h"

namespace sluice {
namespace {

using small_models::bad_input_message;

TEST(Cluster, uniform_places_ranks_in_blocks) {
  const Cluster cluster = uniform_cluster(2, 3, {1e-6, 1e10}, {1e-5, 1e9}, 1 << 30);
  ASSERT_EQ(cluster.ranks.size(), 6U);
  EXPECT_EQ(cluster.ranks[2].node, 0);
  EXPECT_EQ(cluster.ranks[3].node, 1);
  EXPECT_EQ(cluster.node_names, (std::vector<std::string>{"node0", "node1"}));
  EXPECT_EQ(link_between(cluster, 0, 2), LinkKind::intra_node);
  EXPECT_EQ(link_between(cluster, 2, 3), LinkKind::inter_node);
  EXPECT_EQ(link_class(cluster, LinkKind::inter_node), (LinkClass{1e-5, 1e9}));
  EXPECT_NO_THROW(validate(cluster));
}

TEST(Cluster, refuses_what_no_cluster_is) {
  const auto message_with = [](const std::function<void(Cluster&)>& change) {
    Cluster cluster = uniform_cluster(2, 1, {}, {});
    change(cluster);
    return bad_input_message([&] { validate(cluster); });
  };
  EXPECT_EQ(message_with([](Cluster& c) { c.ranks.clear(); }), "the cluster has no ranks");
  EXPECT_EQ(message_with([](Cluster& c) { c.ranks[1].node = 2; }), "rank 1: node 2, but there are 2");
  EXPECT_NE(message_with([](Cluster& c) { c.ranks[1].speed = 0; }), "");
  EXPECT_NE(message_with([](Cluster& c) { c.ranks[0].speed = NAN; }), "");
  EXPECT_NE(message_with([](Cluster& c) { c.ranks[0].memory_bytes = 0; }), "");
  EXPECT_NE(message_with([](Cluster& c) { c.intra_node.latency_s = -1; }), "");
  EXPECT_NE(message_with([](Cluster& c) { c.inter_node.latency_s = INFINITY; }), "");
  EXPECT_NE(message_with([](Cluster& c) { c.inter_node.bandwidth_bytes_per_s = 0; }), "");
  EXPECT_NE(message_with([](Cluster& c) { c.inter_node.bandwidth_bytes_per_s = NAN; }), "");
}

}  // namespace
}  // namespace sluice
