#include "core/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

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

TEST(Cluster, messages_cost_what_was_measured_of_their_algorithm_and_size) {
  Cluster cluster = uniform_cluster(2, 2, {1e-6, 1e10}, {1e-5, 1e9});
  const LinkClasses links{cluster.intra_node, cluster.inter_node};
  const auto cost = [](Algorithm algorithm, bool segmented, std::int64_t from_bytes, double latency_s) {
    return AlgorithmCost{.algorithm = algorithm,
                         .intra_node = {.latency_s = latency_s},
                         .inter_node = {.latency_s = 10 * latency_s},
                         .segmented = segmented,
                         .from_bytes = from_bytes};
  };
  cluster.algorithm_costs = {cost(Algorithm::chain, false, 8192, 3),    cost(Algorithm::chain, false, 512, 2),
                             cost(Algorithm::chain, false, 1 << 20, 4), cost(Algorithm::chain, true, 16384, 5),
                             cost(Algorithm::tree, false, 0, 6),        cost(Algorithm::chain, true, 32768, 7)};
  const auto classes = [&](const Route& route, std::int64_t bytes) {
    return link_classes(cluster, CollectiveKind::multicast, route, bytes, 5);
  };
  const Route whole{Algorithm::chain, 0}, segments{Algorithm::chain, 16384}, other{Algorithm::binomial, 0};
  EXPECT_EQ(classes(whole, 511), links) << "smaller than what was measured";
  for (const auto& [bytes, latency_s] : std::map<std::int64_t, double>{{512, 2}, {8191, 2}, {8192, 3}, {1 << 20, 4}}) {
    EXPECT_EQ(classes(whole, bytes)[0], (LinkClass{.latency_s = latency_s})) << bytes;
    EXPECT_EQ(classes(whole, bytes)[1], (LinkClass{.latency_s = 10 * latency_s})) << bytes;
  }
  EXPECT_EQ(classes(segments, 16385)[0].latency_s, 5) << "segments contend";
  EXPECT_EQ(classes({Algorithm::chain, 32768}, 1 << 20)[0].latency_s, 7) << "their own size counts";
  EXPECT_EQ(classes(segments, 16384)[0].latency_s, 3) << "one segment is a whole payload";
  EXPECT_EQ(classes({Algorithm::tree, 16384}, 1 << 20)[0].latency_s, 6) << "the nearest thing that was measured";
  EXPECT_EQ(classes(other, 8192), links);
  EXPECT_EQ(link_classes(cluster, CollectiveKind::all_to_all, whole, 8192, 5), links);
  EXPECT_EQ(link_classes(cluster, CollectiveKind::multicast, whole, 8192, 1), links) << "all there is";
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
  EXPECT_NE(message_with([](Cluster& c) { c.algorithm_costs = {{.from_bytes = -1}}; }), "");
}

}  // namespace
}  // namespace sluice
