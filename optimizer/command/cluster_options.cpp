#include "optimizer/command/cluster_options.h"

#include <algorithm>

#include "core/error.h"
#include "core/storage/cluster_file.h"
#include "core/text.h"

namespace sluice {

namespace po = boost::program_options;

namespace {

constexpr double kAssumedGbps = 100;
constexpr double kAssumedLatencyUs = 1;
const std::vector<std::string> kDescriptions{"nodes",    "ranks-per-node", "intra-gbps", "inter-gbps",
                                             "intra-us", "inter-us",       "memory-gib"};

/// Limits far outside of what machines have, so that sums of times and bytes stay far from overflow.
constexpr int kMostRanks = 100'000;
constexpr double kLeastGbps = 1e-6;
constexpr double kMostLatencyUs = 1e9;
constexpr double kLeastGib = 1e-9, kMostGib = 1e9;

int count(const po::variables_map& values, const std::string& name, int otherwise) {
  const int value = optional_value<int>(values, name).value_or(otherwise);
  require_within(name, value, 1, kMostRanks);
  return value;
}

LinkClass link(const po::variables_map& values, const std::string& where) {
  const double latency_us = optional_value<double>(values, where + "-us").value_or(kAssumedLatencyUs);
  const double gbps = optional_value<double>(values, where + "-gbps").value_or(kAssumedGbps);
  require_within(where + "-us", latency_us, 0, kMostLatencyUs);
  require_within(where + "-gbps", gbps, kLeastGbps);
  return {.latency_s = latency_us * 1e-6, .bandwidth_bytes_per_s = gbps * 1e9 / 8};
}

std::int64_t memory_bytes(const po::variables_map& values) {
  const auto gib = optional_value<double>(values, "memory-gib");
  if (!gib) return kUnlimitedMemory;
  require_within("memory-gib", *gib, kLeastGib, kMostGib);
  return static_cast<std::int64_t>(*gib * (std::int64_t{1} << 30));
}

Cluster from_file(const po::variables_map& values) {
  for (const std::string& name : kDescriptions)
    if (values.count(name) > 0)
      throw usage_error(text("--cluster and --", name, " both describe the cluster: give one"));
  const std::string& path = values["cluster"].as<std::string>();
  Cluster cluster = read_cluster(path);
  const int present = static_cast<int>(cluster.ranks.size());
  const int wanted = count(values, "ranks", present);
  if (wanted > present) throw infeasible(text("--ranks is ", wanted, ", but ", path, " has ", present, " ranks"));
  cluster.ranks.resize(static_cast<std::size_t>(wanted));
  return cluster;
}

std::string assumption(const po::variables_map& values, int nodes, int ranks_per_node) {
  std::string said;
  const auto assume = [&](const std::string& what) { said += (said.empty() ? "assumed: " : ", ") + what; };
  if (values.count("nodes") == 0)
    assume(text(nodes, nodes == 1 ? " node with " : " nodes with ", ranks_per_node,
                ranks_per_node == 1 ? " rank" : " ranks"));
  const auto assume_link = [&](const std::string& where, bool is_used) {
    if (is_used && values.count(where + "-gbps") == 0) assume(text(where, "-node links of ", kAssumedGbps, " Gb/s"));
    if (is_used && values.count(where + "-us") == 0) assume(text(where, "-node latency of ", kAssumedLatencyUs, " us"));
  };
  const bool traffic_counts = !optional_value<bool>(values, "compute-only").value_or(false);
  assume_link("intra", ranks_per_node > 1 && traffic_counts);
  assume_link("inter", nodes > 1 && traffic_counts);
  return said;
}

ChosenCluster from_options(const po::variables_map& values) {
  if (values.count("ranks") == 0 && (values.count("nodes") == 0 || values.count("ranks-per-node") == 0))
    throw usage_error("give --cluster, or --ranks, or --nodes and --ranks-per-node");
  int nodes = count(values, "nodes", 1);
  const int ranks_per_node = count(values, "ranks-per-node", std::max(1, count(values, "ranks", nodes) / nodes));
  require_within("nodes x --ranks-per-node", static_cast<double>(nodes) * ranks_per_node, 1, kMostRanks);
  const int ranks = count(values, "ranks", nodes * ranks_per_node);
  if (values.count("nodes") == 0 && ranks % ranks_per_node == 0) nodes = ranks / ranks_per_node;
  if (ranks != nodes * ranks_per_node)
    throw usage_error(text("--ranks is ", ranks, ", but ", nodes, " nodes with ", ranks_per_node, " ranks each have ",
                           nodes * ranks_per_node));
  return {uniform_cluster(nodes, ranks_per_node, link(values, "intra"), link(values, "inter"), memory_bytes(values)),
          assumption(values, nodes, ranks_per_node)};
}

}  // namespace

void add_cluster_options(po::options_description& table) {
  table.add_options()                                                                              //
      ("cluster", po::value<std::string>(), "cluster file of sluice-run probe; or describe one:")  //
      ("ranks", po::value<int>(), "ranks to plan for; default: all of the cluster")                //
      ("nodes", po::value<int>(), "nodes; default 1")                                              //
      ("ranks-per-node", po::value<int>(), "ranks on each node; default: ranks / nodes")           //
      ("intra-gbps", po::value<double>(), "bandwidth of a rank's link in its node [1e9 bit/s]")    //
      ("inter-gbps", po::value<double>(), "bandwidth of a node's link to others [1e9 bit/s]")      //
      ("intra-us", po::value<double>(), "latency in a node [us]")                                  //
      ("inter-us", po::value<double>(), "latency between nodes [us]")                              //
      ("memory-gib", po::value<double>(), "memory of a rank [GiB]; default: no limit");
}

ChosenCluster cluster_from(const po::variables_map& values, const std::optional<Cluster>& of_profile) {
  const bool described =
      values.count("ranks") > 0 ||
      std::any_of(kDescriptions.begin(), kDescriptions.end(), [&](const auto& name) { return values.count(name) > 0; });
  ChosenCluster chosen = values.count("cluster") > 0 ? ChosenCluster{from_file(values), ""}
                         : of_profile && !described  ? ChosenCluster{*of_profile, ""}
                                                     : from_options(values);
  validate(chosen.cluster);
  return chosen;
}

}  // namespace sluice
