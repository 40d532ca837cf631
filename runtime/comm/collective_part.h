#pragma once

#include <cstdint>
#include <vector>

#include "core/algorithm.h"
#include "core/cluster.h"
#include "core/group.h"
#include "core/moves.h"

namespace sluice {

/// What one rank does in a collective: made once by Communicator::prepare, shared by all calls.
struct CollectivePart {
  CollectiveKind kind = CollectiveKind::multicast;
  Group group;
  Route route;
  std::int64_t bytes = 0;   ///< the payload; of all-to-all: what one member has for one other
  std::vector<Step> steps;  ///< this rank's; mpi: its nominal ones, which say what is counted
};

/// @throws Error (runtime fault) naming the bytes, or the rank, that do not fit `rank` of `ranks`; an all-reduce's
/// bytes that are no whole float32 values (moves have them, in models from elsewhere; nobody can add them).
[[nodiscard]] CollectivePart collective_part(Rank rank, int ranks, CollectiveKind kind, const Group& group,
                                             const Route& route, std::int64_t bytes, const Cluster& cluster);

}  // namespace sluice
