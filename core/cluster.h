#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/algorithm.h"
#include "core/model.h"

namespace sluice {

/// Hockney (1994): a message of n bytes takes latency_s + n / bandwidth_bytes_per_s.
struct LinkClass {
  double latency_s = 0;
  double bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
  bool operator==(const LinkClass&) const = default;
};

inline constexpr std::int64_t kUnlimitedMemory = std::numeric_limits<std::int64_t>::max();

struct RankSpec {
  int node = 0;
  double speed = 1;  ///< compute times are divided by it
  std::int64_t memory_bytes = kUnlimitedMemory;
  bool host = false;  ///< a CPU beside accelerators: layers take LayerCost::host_s here
  bool operator==(const RankSpec&) const = default;
};

/// What an algorithm's messages take, as fitted to its own times on these nodes (after Nuriyev, Rico-Gallego,
/// Lastovetsky 2022): contention and protocol make them differ from those of lone messages, from those of another size
/// (Kielmann, Bal, Verstoep 2000), and segments, which a rank receives while it sends, from payloads that travel whole.
struct AlgorithmCost {
  CollectiveKind collective = CollectiveKind::multicast;
  Algorithm algorithm = Algorithm::flat;
  LinkClass intra_node = {};
  LinkClass inter_node = {};
  double median_error = 0;      ///< |predicted - measured| / measured over the fitted times
  bool segmented = false;       ///< of payloads that travel in segments
  std::int64_t from_bytes = 0;  ///< of messages from here on (message_bytes()), up to the algorithm's next cost
  bool operator==(const AlgorithmCost&) const = default;
};

/// Where ranks sit and what connects them. An intra-node link belongs to a
/// rank, an inter-node link (the NIC) to a node and is shared by its ranks;
/// each direction on its own.
struct Cluster {
  std::vector<RankSpec> ranks;
  std::vector<std::string> node_names;  ///< one per node
  LinkClass intra_node;
  LinkClass inter_node;
  std::vector<AlgorithmCost> algorithm_costs = {};  ///< of those that were measured
  bool operator==(const Cluster&) const = default;
};

enum class LinkKind : std::uint8_t { intra_node, inter_node };
[[nodiscard]] const char* to_string(LinkKind kind);

[[nodiscard]] LinkKind link_between(const Cluster& cluster, Rank a, Rank b);
[[nodiscard]] const LinkClass& link_class(const Cluster& cluster, LinkKind kind);
using LinkClasses = std::array<LinkClass, 2>;  ///< by LinkKind
/// For the messages of a collective of `moves` messages: its algorithm's, as measured with messages of about that
/// size, of segments or not if both were; those of one that was not measured, and a message that is all there is, take
/// link_class().
/// @param bytes  as in collective_time() (core/route_choice.h)
[[nodiscard]] LinkClasses link_classes(const Cluster& cluster, CollectiveKind collective, const Route& route,
                                       std::int64_t bytes, std::size_t moves);

/// `nodes` x `ranks_per_node` equal ranks, block-wise: node = rank / ranks_per_node.
[[nodiscard]] Cluster uniform_cluster(int nodes, int ranks_per_node, LinkClass intra, LinkClass inter,
                                      std::int64_t memory_bytes = kUnlimitedMemory);

/// True if any rank's memory has a limit.
[[nodiscard]] bool memory_is_limited(const Cluster& cluster);
[[nodiscard]] Cluster with_unlimited_memory(Cluster cluster);

/// Nodes that have ranks.
[[nodiscard]] int occupied_nodes(const Cluster& cluster);
/// One class of links joins all ranks: they share a node, or each has its own.
[[nodiscard]] bool linked_alike(const Cluster& cluster);
/// By node, ascending; empty for nodes without ranks.
[[nodiscard]] std::vector<std::vector<Rank>> ranks_by_node(const Cluster& cluster);
/// The same but for the node.
[[nodiscard]] bool alike(const RankSpec& a, const RankSpec& b);

/// @throws Error (bad input) naming rank or link, quantity and value.
void validate(const Cluster& cluster);

}  // namespace sluice
