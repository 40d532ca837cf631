#pragma once

#include "optimizer/solver/ilp/works.h"

namespace sluice {

/// Column `time` [unit_s] is not below the compute of any rank and the busy time of any link, as loads_of() and
/// bottleneck() have them.
/// @param passing_on  false: leaves out that what enters a node is passed on inside
void load_ranks_and_links(Mip& mip, const WorkColumns& works, const Problem& problem, int time, double unit_s,
                          bool passing_on);

/// False if the links inside nodes cannot be the bottleneck, whatever is put where.
[[nodiscard]] bool rank_links_may_bind(const Problem& problem);

/// Memory of ranks, as WorkerCost::memory_bytes() has it.
void limit_memory(Mip& mip, const WorkColumns& works, const Problem& problem);

}  // namespace sluice
