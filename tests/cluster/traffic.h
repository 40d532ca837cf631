#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/index.h"
#include "core/text.h"
#include "tests/mpi/comm/comm_test_support.h"

/// What the programs that measure traffic on the test cluster have in common.
namespace sluice {

struct NamedGroup {
  std::string name;
  Group group;
};

inline NamedGroup everybody(int ranks, Rank root) {
  NamedGroup all{.name = text("all-from-", root), .group = {.root = root, .members = {}}};
  for (Rank rank = 0; rank < ranks; ++rank) all.group.members.push_back(rank);
  return all;
}

/// One rank of each node.
inline NamedGroup leaders(const Cluster& cluster) {
  NamedGroup leaders{.name = "leaders", .group = {}};
  for (const std::vector<Rank>& node : ranks_by_node(cluster)) leaders.group.members.push_back(node.front());
  return leaders;
}

/// Rank 0 and two ranks of another node, as a forward and a backward owner of one tensor may sit; no members if no node
/// has two.
inline NamedGroup two_consumers(const Cluster& cluster) {
  NamedGroup pair{.name = "two-on-one-node", .group = {}};
  for (const std::vector<Rank>& node : ranks_by_node(cluster))
    if (pair.group.members.empty() && node.front() != 0 && node.size() > 1) pair.group.members = {0, node[0], node[1]};
  return pair;
}

/// The caller's part of a multicast; none if it is not a member.
inline std::shared_ptr<const CollectivePart> part_of(Communicator& world, const Group& group, const Route& route,
                                                     std::int64_t bytes, const Cluster& cluster) {
  if (!is_member(group, world.rank())) return nullptr;
  return world.prepare(CollectiveKind::multicast, group, route, bytes, cluster);
}

/// Returns when the payload is here and has been passed on.
inline void multicast(Communicator& world, const std::shared_ptr<const CollectivePart>& part, Bytes& data) {
  if (!part) return;
  Operation operation = world.start(part, data.data(), 0, {});
  world.wait(operation);
}

}  // namespace sluice
