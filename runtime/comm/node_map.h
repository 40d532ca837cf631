#pragma once

#include <mpi.h>

#include <span>
#include <string>
#include <vector>

#include "core/model.h"

namespace sluice {

/// Which ranks share memory, and who they are to the launcher.
struct NodeMap {
  std::vector<int> node_of_rank;   ///< nodes are numbered by first appearance
  std::vector<std::string> names;  ///< one per node, unique
  std::vector<Rank> world_ranks;   ///< in MPI_COMM_WORLD
  bool operator==(const NodeMap&) const = default;
};

/// Asks MPI (MPI_COMM_TYPE_SHARED), and Slurm where MPI takes every rank to be alone (MPICH under
/// `srun -m arbitrary`): no host list has to be understood. Collective over `comm`, whose ranks are the world's.
[[nodiscard]] NodeMap discover_nodes(MPI_Comm comm);

/// "rank 2 (world rank 5 on node3)": for people who look for the process.
[[nodiscard]] std::string describe(const NodeMap& map, Rank rank);

/// The map of the ranks in another order: new rank r is old rank order[r].
[[nodiscard]] NodeMap permuted(const NodeMap& map, std::span<const Rank> order);

}  // namespace sluice
