#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <vector>

#include "core/model.h"

namespace sluice {

/// Which ranks share memory.
struct NodeMap {
  std::vector<int> node_of_rank;   ///< nodes are numbered by first appearance
  std::vector<std::string> names;  ///< one per node, unique
  bool operator==(const NodeMap&) const = default;
};

/// Asks MPI (MPI_COMM_TYPE_SHARED): no host list has to be understood. Collective.
[[nodiscard]] NodeMap discover_nodes(MPI_Comm comm);

/// The map of the ranks in another order: new rank r is old rank order[r].
[[nodiscard]] NodeMap permuted(const NodeMap& map, std::span<const Rank> order);

}  // namespace sluice
