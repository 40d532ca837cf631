#include "core/cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {

const char* to_string(LinkKind kind) { return kind == LinkKind::intra_node ? "intra_node" : "inter_node"; }

LinkKind link_between(const Cluster& cluster, Rank a, Rank b) {
  return cluster.ranks[at(a)].node == cluster.ranks[at(b)].node ? LinkKind::intra_node : LinkKind::inter_node;
}

const LinkClass& link_class(const Cluster& cluster, LinkKind kind) {
  return kind == LinkKind::intra_node ? cluster.intra_node : cluster.inter_node;
}

LinkClasses link_classes(const Cluster& cluster, CollectiveKind collective, const Route& route, std::int64_t bytes,
                         std::size_t moves) {
  const std::int64_t message = message_bytes(route, bytes);
  const auto nearness = [&](const AlgorithmCost& cost) {
    return std::pair(cost.segmented == is_segmented(route, bytes), cost.from_bytes);
  };
  const AlgorithmCost* nearest = nullptr;
  for (const AlgorithmCost& cost : cluster.algorithm_costs)
    if (moves > 1 && cost.collective == collective && cost.algorithm == route.algorithm && cost.from_bytes <= message &&
        (nearest == nullptr || nearness(*nearest) < nearness(cost)))
      nearest = &cost;
  if (nearest == nullptr) return {cluster.intra_node, cluster.inter_node};
  return {nearest->intra_node, nearest->inter_node};
}

Cluster uniform_cluster(int nodes, int ranks_per_node, LinkClass intra, LinkClass inter, std::int64_t memory_bytes) {
  Cluster cluster;
  cluster.intra_node = intra;
  cluster.inter_node = inter;
  for (int node = 0; node < nodes; ++node) {
    cluster.node_names.push_back(text("node", node));
    for (int i = 0; i < ranks_per_node; ++i) cluster.ranks.push_back({.node = node, .memory_bytes = memory_bytes});
  }
  return cluster;
}

bool memory_is_limited(const Cluster& cluster) {
  return std::any_of(cluster.ranks.begin(), cluster.ranks.end(),
                     [](const RankSpec& rank) { return rank.memory_bytes != kUnlimitedMemory; });
}

Cluster with_unlimited_memory(Cluster cluster) {
  for (RankSpec& rank : cluster.ranks) rank.memory_bytes = kUnlimitedMemory;
  return cluster;
}

int occupied_nodes(const Cluster& cluster) {
  const auto nodes = ranks_by_node(cluster);
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [](const auto& node) { return !node.empty(); }));
}

bool linked_alike(const Cluster& cluster) {
  const int nodes = occupied_nodes(cluster);
  return nodes == 1 || nodes == std::ssize(cluster.ranks);
}

std::vector<std::vector<Rank>> ranks_by_node(const Cluster& cluster) {
  std::vector<std::vector<Rank>> nodes(cluster.node_names.size());
  for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank) nodes[at(cluster.ranks[at(rank)].node)].push_back(rank);
  return nodes;
}

bool alike(const RankSpec& a, const RankSpec& b) {
  return a.speed == b.speed && a.memory_bytes == b.memory_bytes && a.host == b.host;
}

namespace {

void validate_link(const LinkClass& link, const std::string& name) {
  if (!std::isfinite(link.latency_s) || link.latency_s < 0)
    throw bad_input(text(name, " link: latency_s ", link.latency_s, ", expected a finite number of at least 0"));
  if (std::isnan(link.bandwidth_bytes_per_s) || link.bandwidth_bytes_per_s <= 0)
    throw bad_input(text(name, " link: bandwidth_bytes_per_s ", link.bandwidth_bytes_per_s, ", expected more than 0"));
}

}  // namespace

void validate(const Cluster& cluster) {
  if (cluster.ranks.empty()) throw bad_input("the cluster has no ranks");
  for (std::size_t rank = 0; rank < cluster.ranks.size(); ++rank) {
    const RankSpec& spec = cluster.ranks[rank];
    if (spec.node < 0 || spec.node >= std::ssize(cluster.node_names))
      throw bad_input(text("rank ", rank, ": node ", spec.node, ", but there are ", cluster.node_names.size()));
    if (!std::isfinite(spec.speed) || spec.speed <= 0)
      throw bad_input(text("rank ", rank, ": speed ", spec.speed, ", expected a finite number above 0"));
    if (spec.memory_bytes <= 0) throw bad_input(text("rank ", rank, ": memory of ", spec.memory_bytes, " bytes"));
  }
  for (const LinkKind kind : {LinkKind::intra_node, LinkKind::inter_node})
    validate_link(link_class(cluster, kind), to_string(kind));
  for (const AlgorithmCost& cost : cluster.algorithm_costs) {
    const std::string name = text(to_string(cost.collective), " by ", to_string(cost.algorithm));
    if (!knows(cost.algorithm, cost.collective)) throw bad_input(text(name, ": there is no such algorithm"));
    validate_link(cost.intra_node, text(name, ", ", to_string(LinkKind::intra_node)));
    validate_link(cost.inter_node, text(name, ", ", to_string(LinkKind::inter_node)));
    if (cost.from_bytes < 0) throw bad_input(text(name, ": from_bytes ", cost.from_bytes, ", expected at least 0"));
  }
}

}  // namespace sluice
