#include "runtime/comm/placement.h"

#include <algorithm>
#include <map>

namespace sluice {
namespace {

/// Ranks of each node, nodes by first appearance.
std::vector<std::vector<Rank>> ranks_by_node(std::span<const int> node_of_rank) {
  std::vector<std::vector<Rank>> nodes;
  Rank rank = 0;
  for (const int node : number_by_first_appearance(node_of_rank)) {
    if (node == std::ssize(nodes)) nodes.emplace_back();
    nodes[static_cast<std::size_t>(node)].push_back(rank++);
  }
  return nodes;
}

}  // namespace

std::vector<int> number_by_first_appearance(std::span<const int> labels) {
  std::map<int, int> numbers;
  std::vector<int> result;
  for (const int label : labels)
    result.push_back(numbers.try_emplace(label, static_cast<int>(numbers.size())).first->second);
  return result;
}

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
