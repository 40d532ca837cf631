#pragma once

#include <vector>

namespace sluice {

/// Kahn (1962), always the smallest node that is ready. If the graph has cycles, the nodes on
/// and behind them are missing.
/// @param successors  by node; an edge may be listed twice
[[nodiscard]] std::vector<int> topological_order(const std::vector<std::vector<int>>& successors);

/// Predecessors by node, ascending.
[[nodiscard]] std::vector<std::vector<int>> reversed(const std::vector<std::vector<int>>& successors);

}  // namespace sluice
