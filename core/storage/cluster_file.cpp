#include "core/storage/cluster_file.h"

#include "core/storage/in_file.h"
#include "core/storage/table.h"
#include "core/text.h"

namespace sluice {
namespace {

template <typename Table>
void rank_columns(Table table) {
  table.number("node", &RankSpec::node, {"1", "row of the rank's node in nodes"});
  table.number("speed", &RankSpec::speed, {"1", "compute times are divided by it"});
  table.number("memory_bytes", &RankSpec::memory_bytes, {"B", "2^63 - 1: unlimited"});
  table.later_number("host", &RankSpec::host, {"1", "1: a CPU beside accelerators; missing: 0"});
}

template <typename Table>
void node_columns(Table table) {
  table.string(
      "name", [](auto& name) -> auto& { return name; }, "host name, or node0, node1, ...");
}

/// Row 0 within a node, row 1 between nodes: the values of LinkKind.
template <typename Table>
void link_columns(Table table) {
  table.number("latency_s", &LinkClass::latency_s, {"s", "time of an empty message; row 0 within a node, 1 between"});
  table.number("bandwidth_bytes_per_s", &LinkClass::bandwidth_bytes_per_s, {"B/s", "per direction; may be infinite"},
               Values::any);
}

template <typename Table>
void algorithm_columns(Table table) {
  const auto latency = [&](const char* name, auto link, const char* what) {
    table.number(name, [link](auto& cost) -> auto& { return (cost.*link).latency_s; }, {"s", what});
  };
  const auto bandwidth = [&](const char* name, auto link, const char* what) {
    table.number(
        name, [link](auto& cost) -> auto& { return (cost.*link).bandwidth_bytes_per_s; }, {"B/s", what}, Values::any);
  };
  table.choice("collective", &AlgorithmCost::collective, CollectiveKind::all_to_all, "what it does");
  table.choice("algorithm", &AlgorithmCost::algorithm, Algorithm::ring, "how its payload travels");
  latency("intra_node_latency_s", &AlgorithmCost::intra_node, "of each of its messages within a node");
  bandwidth("intra_node_bandwidth_bytes_per_s", &AlgorithmCost::intra_node, "of each of its messages within a node");
  latency("inter_node_latency_s", &AlgorithmCost::inter_node, "of each of its messages between nodes");
  bandwidth("inter_node_bandwidth_bytes_per_s", &AlgorithmCost::inter_node, "of each of its messages between nodes");
  table.number("median_error", &AlgorithmCost::median_error, {"1", "|predicted - measured| / measured, when fitted"});
  table.later_number("segmented", &AlgorithmCost::segmented, {"1", "1: of payloads that travel in segments"});
  table.later_number("from_bytes", &AlgorithmCost::from_bytes,
                     {"B", "messages (segments, or whole payloads) from here on, up to the algorithm's next"});
}

}  // namespace

void write_cluster(const GroupWriter& group, const Cluster& cluster) {
  rank_columns(TableWriter(group, "ranks", cluster.ranks));
  node_columns(TableWriter(group, "nodes", cluster.node_names));
  link_columns(TableWriter(group, "links", std::vector{cluster.intra_node, cluster.inter_node}));
  algorithm_columns(TableWriter(group, "algorithms", cluster.algorithm_costs));
}

Cluster read_cluster(const GroupReader& group) {
  Cluster cluster;
  std::vector<LinkClass> links;
  rank_columns(TableReader(group, "ranks", cluster.ranks));
  node_columns(TableReader(group, "nodes", cluster.node_names));
  link_columns(TableReader(group, "links", links));
  algorithm_columns(TableReader(group, "algorithms", cluster.algorithm_costs));
  if (links.size() != 2) group.refuse("links", text("has ", links.size(), " rows, expected 2"));
  cluster.intra_node = links[0];
  cluster.inter_node = links[1];
  return cluster;
}

void write_cluster(const std::string& path, const Cluster& cluster, const Provenance& provenance) {
  in_file(path, [&] { validate(cluster); });
  FileWriter file(path, kClusterSchema, provenance);
  write_cluster(file.root(), cluster);
  file.commit();
}

Cluster read_cluster(const std::string& path) {
  Cluster cluster = read_cluster(FileReader(path, kClusterSchema).root());
  in_file(path, [&] { validate(cluster); });
  return cluster;
}

}  // namespace sluice
