#include "runtime/comm/placement.h"

#include <algorithm>
#include <map>

namespace sluice {
namespace {

/// Ranks of each node, nodes by first appearance.
std::vector<std::vector<Rank>> ranks_by_node(std::span<const int> node_of_rank) {
  std::vector<std::vector<Rank>> nodes;
  std::map<int, std::size_t> position;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto [entry, is_new] = position.try_emplace(node_of_rank[rank], nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[entry->second].push_back(static_cast<Rank>(rank));
  }
  return nodes;
}

}  // namespace

std::vector<Rank> match_placement(std::span<const int> planned_nodes, std::span<const int> actual_nodes) {
  if (planned_nodes.size() != actual_nodes.size()) return {};
  std::vector<std::vector<Rank>> free = ranks_by_node(actual_nodes);
  std::vector<Rank> order(planned_nodes.size());
  for (const std::vector<Rank>& planned : ranks_by_node(planned_nodes)) {
    const auto match =
        std::find_if(free.begin(), free.end(), [&](const auto& n) { return n.size() == planned.size(); });
    if (match == free.end()) return {};
    for (std::size_t i = 0; i < planned.size(); ++i) order[static_cast<std::size_t>(planned[i])] = (*match)[i];
    free.erase(match);
  }
  return order;
}

}  // namespace sluice
