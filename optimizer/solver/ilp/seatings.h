#pragma once

#include <vector>

#include "optimizer/solver/problem.h"

namespace sluice {

/// Who stands where: [kind of work][rank] is a position. One kind of work for all, or with free backwards one
/// for each that is dealt apart.
using Seating = std::vector<std::vector<int>>;

/// Kinds of work whose ranks are dealt apart.
[[nodiscard]] int seats_per_rank(const SearchSpace& space);

/// Every way to seat the ranks that may differ in price, but for the numbers of ranks that are alike and
/// share a node: see relabelled(). What lies in contiguous blocks comes first.
/// @return  empty if there are more than `most`
[[nodiscard]] std::vector<Seating> distinct_seatings(const Problem& problem, std::size_t most);

/// Whether the numbers of ranks that are alike and share a node may matter: what enters a
/// node comes to the lowest rank that needs it, which sends it on.
[[nodiscard]] bool numbers_matter(const Problem& problem);

/// All seatings that differ from this one in the numbers of ranks that are alike and share a node.
[[nodiscard]] std::vector<Seating> relabelled(const Problem& problem, const Seating& seating);

}  // namespace sluice
