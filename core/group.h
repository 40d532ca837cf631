#pragma once

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

}  // namespace sluice
