#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/moves.h"
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

/// What each member of a ring all-reduce sends, and receives, as a share of the payload: 2 (r-1)/r.
[[nodiscard]] double ring_share(int members);

/// Which of the owners that update weights sends them to a rank that does not: the first on its node, else the first.
[[nodiscard]] Rank weights_server(const std::vector<Rank>& owners, Rank rank, const Cluster& cluster);

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

/// now_ns + seconds, rounded to whole nanoseconds.
/// @throws Error (bad input) past 100 years: a bandwidth or speed near 0 must not overflow
[[nodiscard]] std::int64_t later_ns(std::int64_t now_ns, double seconds);

}  // namespace sluice
