#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan.h"

/// One function per quantity; solvers, simulator and report call these and nothing else.
namespace sluice {

/// Compute time of `work` of one layer for one micro-batch at speed 1 [s].
[[nodiscard]] double work_time(const LayerCost& cost, Work work);

/// Compute time of `work` of some layers for one micro-batch at speed 1 [s].
[[nodiscard]] double stage_time(const Profile& profile, std::span<const LayerId> layers, Work work);

/// Time of the weight update of some layers at speed 1 [s], once per step.
[[nodiscard]] double update_time(const Profile& profile, std::span<const LayerId> layers);

/// Time that an instruction keeps its rank busy [s]: compute and optimizer_step;
/// 0 for loads and for communication, whose time follows from the links.
[[nodiscard]] double instruction_time(const Plan& plan, const Instruction& instruction, Rank rank);

/// One message of a multicast.
struct Edge {
  Rank from = 0;
  Rank to = 0;
  bool operator==(const Edge&) const = default;
};

/// The messages of one multicast, in an order in which each sender already
/// holds the payload. flat: root to every member. hierarchical: root to the
/// lowest member of each remote node and to the members of its own node, then
/// each of these leaders to the other members of its node: the payload enters a
/// node once. Runtime, simulator and byte accounts all use this list.
[[nodiscard]] std::vector<Edge> multicast_edges(const Group& group, const Cluster& cluster);

/// Who sends to whom in a ring all-reduce (Patarasuk, Yuan 2009): the members in
/// order of (node, rank), each to the next, the last to the first. So a node has
/// one edge in and one out. Empty for one member.
[[nodiscard]] std::vector<Edge> ring_edges(const Group& group, const Cluster& cluster);

/// What each member of a ring all-reduce sends, and receives, as a share of the payload: 2 (r-1)/r.
[[nodiscard]] double ring_share(int members);

/// Which of the owners that update weights sends them to a rank that does not: the first on its node, else the first.
[[nodiscard]] Rank weights_server(const std::vector<Rank>& owners, Rank rank, const Cluster& cluster);

/// A part of an all-reduce's payload [B].
struct RingChunk {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// A ring all-reduce cuts its payload into one chunk per member, of whole floats: of n floats the first n mod
/// `members` chunks have one more. Bytes that make no float (foreign models have them) go with the last chunk.
/// @param index  taken modulo `members`; at least 0
[[nodiscard]] RingChunk ring_chunk(std::int64_t bytes, int members, int index);

/// What the i-th edge of a ring of `members` carries in all rounds of an
/// all-reduce of `bytes` [B]. The i-th member sends every
/// chunk but i+1 while sums are made, and every chunk but i+2 while they are
/// handed on: 2 (members - 1) / members of the bytes, and 2 (members - 1) times
/// the bytes over all edges, exactly.
[[nodiscard]] std::int64_t ring_bytes(std::int64_t bytes, int members, int edge);

/// Time that an all-reduce takes of an edge's links [s]: 2 (members - 1) messages that carry `bytes` together.
[[nodiscard]] double ring_time(const LinkClass& link, std::int64_t bytes, int members);

/// Time of one message on an idle link [s] (Hockney 1994): latency + bytes / bandwidth.
[[nodiscard]] double message_time(const LinkClass& link, std::int64_t bytes);

}  // namespace sluice
