#include "runtime/comm/node_map.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "core/index.h"
#include "core/text.h"
#include "runtime/comm/mpi_check.h"
#include "runtime/comm/placement.h"

namespace sluice {
namespace {

using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;

/// Each rank's representative: the lowest rank that shares memory with it.
std::vector<int> gather_leaders(MPI_Comm comm, int rank, std::size_t size) {
  MPI_Comm created = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &created), "MPI_Comm_split_type");
  const CommHandle node(created);
  int leader = rank;
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, node.get()), "MPI_Bcast");
  std::vector<int> leaders(size);
  check_mpi(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return leaders;
}

std::vector<Name> gather_names(MPI_Comm comm, const Name& mine, std::size_t size) {
  std::vector<Name> all(size);
  check_mpi(
      MPI_Allgather(mine.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, all.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, comm),
      "MPI_Allgather");
  return all;
}

std::vector<Name> gather_host_names(MPI_Comm comm, std::size_t size) {
  Name mine{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(mine.data(), &length), "MPI_Get_processor_name");
  return gather_names(comm, mine, size);
}

/// Each rank's representative: the lowest rank of its node, as Slurm tells each task; none where it tells nothing.
std::vector<int> gather_leaders_by_slurm(MPI_Comm comm, std::size_t size) {
  Name mine{};
  if (const char* node = std::getenv("SLURMD_NODENAME")) std::strncpy(mine.data(), node, mine.size() - 1);
  const std::vector<Name> nodes = gather_names(comm, mine, size);
  std::vector<int> leaders;
  for (const Name& node : nodes) {
    if (node.front() == '\0') return {};
    leaders.push_back(static_cast<int>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin()));
  }
  return leaders;
}

/// MPI's answer. Under `srun -m arbitrary` MPICH believes every rank to be alone; then it is Slurm's.
std::vector<int> leaders_of(MPI_Comm comm, int rank, std::size_t size) {
  const std::vector<int> leaders = gather_leaders(comm, rank, size);
  for (std::size_t r = 0; r < size; ++r)
    if (leaders[r] != static_cast<int>(r)) return leaders;
  const std::vector<int> by_slurm = gather_leaders_by_slurm(comm, size);
  return by_slurm.empty() ? leaders : by_slurm;
}

std::string unique_name(const std::string& host, const std::vector<std::string>& taken) {
  std::string name = host;
  for (int number = 2; std::find(taken.begin(), taken.end(), name) != taken.end(); ++number)
    name = text(host, "#", number);
  return name;
}

}  // namespace

NodeMap discover_nodes(MPI_Comm comm) {
  int rank = 0;
  int ranks = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  const auto size = static_cast<std::size_t>(ranks);
  NodeMap map{number_by_first_appearance(leaders_of(comm, rank, size)), {}, std::vector<Rank>(size)};
  std::iota(map.world_ranks.begin(), map.world_ranks.end(), 0);
  const std::vector<Name> hosts = gather_host_names(comm, size);
  for (std::size_t r = 0; r < size; ++r)
    if (map.node_of_rank[r] == std::ssize(map.names)) map.names.push_back(unique_name(hosts[r].data(), map.names));
  return map;
}

std::string describe(const NodeMap& map, Rank rank) {
  return text("rank ", rank, " (world rank ", map.world_ranks[at(rank)], " on ",
              map.names[at(map.node_of_rank[at(rank)])], ")");
}

NodeMap permuted(const NodeMap& map, std::span<const Rank> order) {
  std::vector<int> old_node;
  for (const Rank rank : order) old_node.push_back(map.node_of_rank[static_cast<std::size_t>(rank)]);
  NodeMap result{number_by_first_appearance(old_node), {}, {}};
  for (const Rank rank : order) result.world_ranks.push_back(map.world_ranks[at(rank)]);
  for (std::size_t r = 0; r < order.size(); ++r)
    if (result.node_of_rank[r] == std::ssize(result.names))
      result.names.push_back(map.names[static_cast<std::size_t>(old_node[r])]);
  return result;
}

}  // namespace sluice
