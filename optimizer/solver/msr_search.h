#pragma once

#include <vector>

#include "optimizer/solver/msr_graph.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// Units and where they run.
struct MsrPartition {
  struct Part {
    Rank rank = 0;
    std::vector<int> units;
  };
  std::vector<Part> parts;  ///< in pipeline order, none empty; no parts: nothing found
  double price = kInfinity;
  double lower_bound = 0;  ///< infinite: there is no partition
  bool timed_out = false;
};

/// A stage for each part.
[[nodiscard]] std::vector<Stage> stages_of(const MsrGraph& graph, const MsrPartition& partition);

/// The least largest load over chains of ideals of `order`, a device for each difference of two
/// neighbours. Dynamic programming from the last device to the first over (ideal, devices of each kind used so
/// far), for a limit that rises to the optimum: near it few ideals are in reach of the devices. Exact, unless
/// time is up or the ideals in reach are too many: then it is the best partition of the units' order.
/// @param order  of the graph's units: graph.order, or other successors
/// @param below  partitions that cost this or more are of no interest
/// @throws Error (infeasible) for too many kinds of ranks
[[nodiscard]] MsrPartition search_msr(const MsrGraph& graph, const WorkGraph& order, const Cluster& cluster,
                                      double below, Deadline deadline);

}  // namespace sluice
