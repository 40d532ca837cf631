#include "core/topological_order.h"

#include <functional>
#include <queue>

#include "core/index.h"

namespace sluice {

std::vector<int> topological_order(const std::vector<std::vector<int>>& successors) {
  std::vector<int> missing(successors.size(), 0);
  for (const auto& targets : successors)
    for (const int target : targets) ++missing[at(target)];
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int node = 0; node < std::ssize(successors); ++node)
    if (missing[at(node)] == 0) ready.push(node);
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int target : successors[at(order.back())])
      if (--missing[at(target)] == 0) ready.push(target);
  }
  return order;
}

std::vector<std::vector<int>> reversed(const std::vector<std::vector<int>>& successors) {
  std::vector<std::vector<int>> predecessors(successors.size());
  for (int node = 0; node < std::ssize(successors); ++node)
    for (const int target : successors[at(node)]) predecessors[at(target)].push_back(node);
  return predecessors;
}

}  // namespace sluice
