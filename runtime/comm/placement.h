#pragma once

#include <span>
#include <vector>

#include "core/model.h"

namespace sluice {

/// The same grouping with the numbers 0, 1, 2... in order of first appearance: {7, 3, 7} becomes {0, 1, 0}.
[[nodiscard]] std::vector<int> number_by_first_appearance(std::span<const int> labels);

/// An order of the world's ranks that reproduces a plan's grouping by node:
/// result[plan rank] = world rank. Each planned node becomes a real node of the
/// same size, both in order of first appearance; inside, ranks keep their order.
/// So equal groupings give the identity.
/// @param planned_nodes, actual_nodes  node of each rank, any numbers
/// @return empty if the sizes of the nodes differ, or the numbers of ranks
[[nodiscard]] std::vector<Rank> match_placement(std::span<const int> planned_nodes, std::span<const int> actual_nodes);

}  // namespace sluice
