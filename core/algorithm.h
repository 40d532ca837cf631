#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

/// How collectives travel: names alone. The messages are in core/moves.h, what they cost in core/route_choice.h.
namespace sluice {

enum class CollectiveKind : std::uint8_t { multicast, all_reduce, all_to_all };
[[nodiscard]] const char* to_string(CollectiveKind kind);

/// Who passes what on to whom. All but flat and mpi are aware of nodes: every byte enters each node once, at its
/// leader (the root on its own node, else the lowest member), and spreads inside from there.
enum class Algorithm : std::uint8_t {
  flat,               ///< multicast, all-to-all: from each source straight to every member that wants it
  mpi,                ///< multicast: MPI_Ibcast on a communicator of the group
  hierarchical,       ///< multicast: to the leaders, then each to its node. all-reduce: summed up at the leaders,
                      ///< a ring of leaders, then down. all-to-all: gathered, exchanged and spread by leaders
  binomial,           ///< multicast: a binomial tree of leaders, then one in each node
  chain,              ///< multicast: from leader to leader, and from member to member inside nodes
  tree,               ///< multicast: a binary tree of leaders, then one in each node
  scatter_allgather,  ///< multicast: a part to each leader, which hand theirs around (van de Geijn)
  ring,               ///< all-reduce: reduce-scatter and allgather around one ring (Patarasuk, Yuan 2009)
};
[[nodiscard]] const char* to_string(Algorithm algorithm);

/// Those that know the collective.
[[nodiscard]] std::span<const Algorithm> algorithms(CollectiveKind kind);
[[nodiscard]] bool knows(Algorithm algorithm, CollectiveKind kind);
/// Those that know it, for people: "ring, hierarchical".
[[nodiscard]] std::string algorithm_names(CollectiveKind kind);

/// Every byte enters each node once.
[[nodiscard]] bool aware_of_nodes(Algorithm algorithm);

/// How one collective's payload travels.
struct Route {
  Algorithm algorithm = Algorithm::hierarchical;
  std::int64_t segment_bytes = 0;  ///< multicast: passed on in segments of this size; 0: whole
  auto operator<=>(const Route&) const = default;
};

/// What a route passes on at once of a payload: a segment, or all of it.
[[nodiscard]] inline std::int64_t message_bytes(const Route& route, std::int64_t payload_bytes) {
  return route.segment_bytes == 0 ? payload_bytes : std::min(route.segment_bytes, payload_bytes);
}
[[nodiscard]] inline bool is_segmented(const Route& route, std::int64_t payload_bytes) {
  return message_bytes(route, payload_bytes) < payload_bytes;
}

}  // namespace sluice
