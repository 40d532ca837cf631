#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "runtime/comm/communicator.h"

namespace sluice {

struct ProbeSettings {
  std::int64_t largest_bytes = std::int64_t{16} << 20;   ///< messages of 8 B up to this, above 8 KiB
  int most_pairs = 4;                                    ///< per link class
  std::int64_t largest_payload = std::int64_t{4} << 20;  ///< of collectives
  double algorithm_seconds = 18;                         ///< to time collectives in, about
  /// Gets rank 0's lines for people: figures with their fit errors, and what could not be measured.
  std::function<void(const std::string&)> log;
};

/// Measures the job's own nodes: one message there and back between pairs of
/// ranks, one pair at a time, the others idle; the median for each size, half of
/// it is one message; latency and bandwidth by fit_link over all pairs of a class.
/// It goes through the communicator, so the figures hold what a run will see. Then
/// the algorithms of collectives, each by its own times (probe_algorithms).
///
/// A class without a pair takes the other's figures (one node: inter-node = intra-
/// node; one rank a node: the other way), and with one rank alone links cost
/// nothing; the log says so. Memory of a rank is the node's physical memory by its
/// ranks. Speeds are 1. Collective; the same result at all ranks.
[[nodiscard]] Cluster probe(const Communicator& communicator, const ProbeSettings& settings);

/// Who measures: the first two ranks of nodes, and the first ranks of
/// neighbouring nodes; at most `most_pairs` of each, intra-node first.
[[nodiscard]] std::vector<Edge> probe_pairs(std::span<const int> node_of_rank, int most_pairs);

}  // namespace sluice
