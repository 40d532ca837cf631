#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/group.h"
#include "core/index.h"
#include "core/text.h"

/// Groups of some ranks of a cluster that sit block-wise, cyclically or anyhow.
namespace sluice::random_groups {

struct Seated {
  Cluster cluster;
  Group group;
};

inline int number(std::mt19937& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

inline Cluster cluster_of(const std::vector<int>& nodes) {
  Cluster cluster;
  for (const int node : nodes) cluster.ranks.push_back({.node = node});
  cluster.node_names.assign(at(1 + *std::max_element(nodes.begin(), nodes.end())), "node");
  return cluster;
}

inline Seated seated(std::mt19937& random, int most_ranks = 9, int most_nodes = 4) {
  const int ranks = number(random, 1, most_ranks), nodes = number(random, 1, most_nodes);
  const int placement = number(random, 0, 2);
  std::vector<int> node_of_rank;
  for (int rank = 0; rank < ranks; ++rank)
    node_of_rank.push_back(placement == 0   ? rank * nodes / ranks
                           : placement == 1 ? rank % nodes
                                            : number(random, 0, nodes - 1));
  Seated made{cluster_of(node_of_rank), {.root = kNone, .members = {}}};
  for (Rank rank = 0; rank < ranks; ++rank)
    if (number(random, 0, 3) > 0) made.group.members.push_back(rank);
  if (made.group.members.empty()) made.group.members.push_back(number(random, 0, ranks - 1));
  made.group.root = made.group.members[at(number(random, 0, static_cast<int>(made.group.members.size()) - 1))];
  return made;
}

inline std::string shown(const Seated& made) {
  std::string line = text("root ", made.group.root, ", members (node):");
  for (const Rank rank : made.group.members) line += text(" ", rank, " (", made.cluster.ranks[at(rank)].node, ")");
  return line;
}

}  // namespace sluice::random_groups
