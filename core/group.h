#pragma once

#include <algorithm>
#include <compare>
#include <vector>

#include "core/model.h"

namespace sluice {

/// Who takes part in a collective, and who holds the payload before a multicast.
/// Members start a group's collectives in the same order: the i-th start at one
/// member belongs to the i-th start at all others.
struct Group {
  Rank root = 0;
  std::vector<Rank> members;  ///< ascending, the root among them
  auto operator<=>(const Group&) const = default;
};

[[nodiscard]] inline bool is_member(const Group& group, Rank rank) {
  return std::binary_search(group.members.begin(), group.members.end(), rank);
}

/// A member's position among the members.
[[nodiscard]] inline int place_of(const Group& group, Rank member) {
  return static_cast<int>(std::lower_bound(group.members.begin(), group.members.end(), member) - group.members.begin());
}

/// One message from `root` to `other`.
[[nodiscard]] inline Group pair_of(Rank root, Rank other) {
  return {.root = root, .members = {std::min(root, other), std::max(root, other)}};
}

}  // namespace sluice
