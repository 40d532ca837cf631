#pragma once

#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace sluice {

/// Gives each lifetime the lowest slot that is free when it begins; one that ends before another begins may hand
/// its slot on. @return the slots used: the largest number of lifetimes that overlap
/// @param by_first  ascending by `first`; members first, last (inclusive) and slot
template <typename Lifetime>
int colour(const std::vector<Lifetime*>& by_first) {
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> busy;  // last use, slot
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  int slots = 0;
  for (Lifetime* lifetime : by_first) {
    for (; !busy.empty() && busy.top().first < lifetime->first; busy.pop()) free.push(busy.top().second);
    if (free.empty()) free.push(slots++);
    lifetime->slot = free.top();
    free.pop();
    busy.emplace(lifetime->last, lifetime->slot);
  }
  return slots;
}

}  // namespace sluice
