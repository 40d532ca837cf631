#include "optimizer/schedule/interval_stages.h"

#include <numeric>
#include <utility>

#include "core/index.h"

namespace sluice {

std::vector<LayerId> interval(int begin, int end) {
  std::vector<LayerId> layers(at(end - begin));
  std::iota(layers.begin(), layers.end(), begin);
  return layers;
}

void append_intervals(std::vector<Stage>& stages, Work work, const std::vector<int>& bounds,
                      const std::vector<std::vector<Rank>>& owners) {
  for (int k = 0; k < std::ssize(owners); ++k)
    if (std::vector<LayerId> layers = interval(bounds[at(k)], bounds[at(k + 1)]); !layers.empty())
      stages.push_back({.work = work, .index = k, .layers = std::move(layers), .owners = owners[at(k)]});
}

}  // namespace sluice
