#pragma once

#include "optimizer/solver/problem.h"

namespace sluice {

/// Plans for clusters whose nodes hold several ranks each: the NIC is shared, links inside are faster.
/// Places workers on nodes, cuts as the space likes inside nodes and jointly between them
/// (NodePipelines, NodeGroups), tries the plans that are best where links are all alike, and improves the best by
/// local search. Nodes may be left out or used in part; unequal ones are passed in several orders.
/// The price is bottleneck() of the stages. The lower bound is that of search(), which gives each rank a NIC
/// of its own besides its link, so a gap may remain though the plan is the best one.
/// free_backward is not made use of. Stages are intervals of the order between nodes even where ideals are allowed.
[[nodiscard]] Solution solve_on_nodes(const Problem& problem, Deadline deadline);

}  // namespace sluice
