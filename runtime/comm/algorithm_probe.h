#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/group.h"
#include "runtime/comm/communicator.h"

namespace sluice {

struct AlgorithmProbeSettings {
  std::int64_t largest_bytes = std::int64_t{4} << 20;  ///< payloads up to this, or less where links are slow
  double seconds = 18;                                 ///< what the measurements should take, as the links predict it
  std::function<void(const std::string&)> log;         ///< for people; at the ranks where it is set
};

/// Times every algorithm of every collective on the job's own ranks, and fits its latencies and bandwidths to them
/// (fit_algorithm). By group (probe_groups) and size the algorithms take turns; the median of each counts; who is not
/// in the group waits. A rank's own clock tells when a collective is over at its last member: once all have said that
/// they are ready, the root (or the first, which tells the others to start) reads its clock, and again when all have
/// said that they are done; the latency of what was said is taken off. So no clocks need to agree, and nobody's late
/// return from a barrier counts.
/// Collective; the same at all ranks; empty for one rank.
/// @param links  where the ranks sit and what lone messages take: routes are as they would be chosen by it
[[nodiscard]] std::vector<AlgorithmCost> probe_algorithms(Communicator& communicator, const Cluster& links,
                                                          const AlgorithmProbeSettings& settings);

/// All ranks (of the first nodes, up to 64), from their first and from their last; the first of each node; two nodes;
/// one node. Each set of members with more than one, once.
[[nodiscard]] std::vector<Group> probe_groups(const Cluster& cluster);

}  // namespace sluice
