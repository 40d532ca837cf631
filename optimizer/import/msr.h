#pragma once

#include <iosfwd>
#include <string>

#include "core/profile.h"

namespace sluice {

/// The link that carries what an imported graph gives as seconds: a transfer of t s becomes a tensor of
/// t x kMsrBytesPerSecond bytes, a picosecond a byte.
inline constexpr double kMsrBytesPerSecond = 1e12;

/// Reads a workload of Tarnawski et al. (2020), "Efficient algorithms for device placement of DNN graph
/// operators", in the JSON of dnn-partitioning (times in ms, sizes in bytes):
///
///     {"maxSizePerFPGA": S, "maxFPGAs": k, "maxCPUs": l,
///      "nodes": [{"id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode",
///                 "colorClass"?, "size"?, "name"?}],
///      "edges": [{"sourceId", "destId", "cost"}]}
///
/// Each node, forward or backward, becomes a foreign layer with one work: forward_s on an accelerator, host_s on
/// a CPU, packed_bytes of memory. Its class becomes Layer::colocation (renumbered). Its output tensor has the bytes
/// that take `cost` at kMsrBytesPerSecond. The profile's cluster is one node of k accelerators with S bytes each (from
/// kMostBytes on: unlimited), then l host CPUs. Layers stand in topological order, the smallest ready id first.
/// @param file  for messages and the model's name
/// @throws Error (bad input) naming file, place, key and value: no JSON, missing keys, other types, numbers
/// out of range, duplicate and unknown ids, cycles, edges from backward to forward nodes, two costs of one node.
[[nodiscard]] Profile import_msr(std::istream& in, const std::string& file);
[[nodiscard]] Profile import_msr(const std::string& file);

}  // namespace sluice
