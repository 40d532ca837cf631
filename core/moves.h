#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/algorithm.h"
#include "core/cluster.h"
#include "core/group.h"

/// Collectives as data: the messages of each, in one list that runtime, simulator, verifier and byte accounts share.
namespace sluice {

struct Plan;
struct Transfer;

/// Who sends to whom.
struct Edge {
  Rank from = 0;
  Rank to = 0;
  bool operator==(const Edge&) const = default;
};

/// One message (to the sender itself: a copy). Offsets are into the payload, which every member has whole (all-to-all:
/// see all_to_all_moves).
struct Move {
  Rank from = 0;
  Rank to = 0;
  std::int64_t offset = 0;  ///< at `from` [B]
  std::int64_t target = 0;  ///< at `to` [B]
  std::int64_t bytes = 0;   ///< may be 0: it still tells that the sender is there
  bool adds = false;        ///< float32 values are added to those at `to`; else they replace them
  bool operator==(const Move&) const = default;
};

/// In an order in which each sender holds what it sends once the moves before it are done. Between two ranks messages
/// are sent and received in this order. A member alone: none.
///
/// Multicast (`bytes` from the root to all). Trees (hierarchical, binomial, chain, tree) of p leaders pass on segments,
/// one after the other; scatter_allgather sends of p - 1 parts one to each other leader, whose ring hands them around:
/// the root sends, and every other leader receives, each byte once (after Barnett, Littlefield, Payne, van de Geijn
/// 1993; the root, which has all, stays out of the ring). mpi: what MPI_Ibcast does is its own; it is counted and
/// priced as a binomial tree of the members, from the root on, whatever their nodes.
///
/// All-reduce (sums of `bytes`, at all). ring: ring_edges and ring_chunk, 2 (r-1) rounds.
/// hierarchical: up a chain inside each node to its leader, around a ring of leaders, and down again. Sums are made in
/// an order that follows from the list, so all members hold the same bits, in every run.
[[nodiscard]] std::vector<Move> multicast_moves(const Group& group, const Route& route, std::int64_t bytes,
                                                const Cluster& cluster);
[[nodiscard]] std::vector<Move> all_reduce_moves(const Group& group, const Route& route, std::int64_t bytes,
                                                 const Cluster& cluster);

/// All-to-all of p members (in the group's order), each with a block of `block_bytes` for each. A member's memory is
/// its p send blocks, then its p receive blocks, then (leaders) scratch. What a member has for itself is a move to
/// itself: a copy, no traffic.
///
/// flat: in round t member i sends to member i + t. hierarchical: blocks for the own node go straight; the others are
/// gathered at the node's leader, exchanged in one message from each leader to each other, and spread there.
[[nodiscard]] std::vector<Move> all_to_all_moves(const Group& group, const Route& route, std::int64_t block_bytes,
                                                 const Cluster& cluster);

/// Those of any kind; `bytes` are an all-to-all's block_bytes.
[[nodiscard]] std::vector<Move> collective_moves(CollectiveKind kind, const Group& group, const Route& route,
                                                 std::int64_t bytes, const Cluster& cluster);

/// Of a plan's transfer, by its payload's collective.
[[nodiscard]] std::vector<Move> moves_of(const Plan& plan, const Transfer& transfer);

/// Who sends to whom in a ring all-reduce (Patarasuk, Yuan 2009): the members in
/// order of (node, rank), each to the next, the last to the first. So a node has
/// one edge in and one out. Empty for one member.
[[nodiscard]] std::vector<Edge> ring_edges(const Group& group, const Cluster& cluster);

/// A part of an all-reduce's payload [B].
struct RingChunk {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

/// A ring all-reduce cuts its payload into one chunk per member, of whole floats: of n floats the first n mod
/// `members` chunks have one more. Bytes that make no float (foreign models have them) go with the last chunk.
/// @param index  taken modulo `members`; at least 0
[[nodiscard]] RingChunk ring_chunk(std::int64_t bytes, int members, int index);

/// One rank's share of a collective: its moves in the list's order, and what each waits for at this rank.
struct Step {
  bool sends = false;
  Rank peer = kNone;
  std::int64_t offset = 0;  ///< in this rank's payload [B]
  std::int64_t bytes = 0;
  bool adds = false;  ///< at the receiver
  /// Earlier steps (rows of the same list) that must be complete before: receives of what this one sends, adds to or
  /// overwrites, and sends of what this one overwrites; ascending, less those that others of them wait for.
  std::vector<int> after = {};
  bool operator==(const Step&) const = default;
};
[[nodiscard]] std::vector<Step> steps_of(Rank rank, std::span<const Move> moves);

}  // namespace sluice
