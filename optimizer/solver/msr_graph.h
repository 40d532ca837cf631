#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.h"
#include "optimizer/solver/work_graph.h"

namespace sluice {

/// What layers take on one device.
struct MsrWeight {
  double accelerator_s = 0;
  double host_s = 0;
  std::int64_t bytes = 0;
  int host_only = 0;  ///< layers that accelerators cannot run
  MsrWeight& operator+=(const MsrWeight& other) {
    accelerator_s += other.accelerator_s;
    host_s += other.host_s;
    bytes += other.bytes;
    host_only += other.host_only;
    return *this;
  }
  MsrWeight& operator-=(const MsrWeight& other) {
    accelerator_s -= other.accelerator_s;
    host_s -= other.host_s;
    bytes -= other.bytes;
    host_only -= other.host_only;
    return *this;
  }
};
[[nodiscard]] MsrWeight msr_weight(const LayerCost& cost);

/// By the link inside the node if all ranks share one, else by the one between nodes; without latency.
[[nodiscard]] double msr_transfer_s(const Tensor& tensor, const Cluster& cluster);

/// Load of a device [s]: the sum of its layers' times, and on accelerators the transfers besides. Infinite if
/// the layers do not fit.
[[nodiscard]] inline double msr_load(const MsrWeight& weight, double transfers_s, const RankSpec& rank) {
  if (weight.bytes > rank.memory_bytes || (weight.host_only > 0 && !rank.host)) return kInfinity;
  return rank.host ? weight.host_s / rank.speed : weight.accelerator_s / rank.speed + transfers_s;
}

/// Tensors that the same units make or read, two or more. A device that has some of them but not all pays the
/// transfer, once: then the tensor leaves or enters it.
struct MsrNet {
  double transfer_s = 0;
  std::vector<int> units;  ///< ascending
};

/// A graph of Tarnawski et al. (2020), "Efficient algorithms for device placement of DNN graph operators".
struct MsrGraph {
  WorkGraph order;                 ///< units, and which may not lie on an earlier device
  std::vector<MsrWeight> weights;  ///< by unit
  std::vector<MsrNet> nets;
  std::vector<std::vector<int>> nets_of;  ///< by unit
};

/// Together: one unit is a co-location class, forward and backward; apart: a layer. Edges between forward layers order
/// them. A unit that has backward layers only is ordered as if forward layers mirrored it: against the edges of its
/// backward layers. What then lies on a cycle is one unit, and a unit without weight joins its only neighbour, which
/// costs nothing.
[[nodiscard]] MsrGraph msr_graph(const Profile& profile, const Cluster& cluster, bool together);

/// Accelerator seconds that a second of a host saves, at most.
[[nodiscard]] double msr_host_ratio(const MsrGraph& graph);

/// No partition costs less: compute spread evenly, and the largest unit.
[[nodiscard]] double msr_floor(const MsrGraph& graph, const Cluster& cluster);

}  // namespace sluice
