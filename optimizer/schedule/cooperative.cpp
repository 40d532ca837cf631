#include "optimizer/schedule/cooperative.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/index.h"
#include "optimizer/schedule/interval_stages.h"

namespace sluice {
namespace {

/// Of a stage's layers those that make what its backward, or one of these again, reads.
std::vector<LayerId> recomputed_layers(const Model& model, const std::vector<LayerId>& layers) {
  std::set<LayerId> recomputed;
  const auto need = [&](const std::vector<TensorId>& tensors) {
    for (const TensorId t : tensors)
      if (const LayerId producer = model.tensors[at(t)].producer;
          std::binary_search(layers.begin(), layers.end(), producer))
        recomputed.insert(producer);
  };
  for (const LayerId layer : layers) {
    need(model.needs[at(layer)].backward_input);
    need(model.needs[at(layer)].backward_weight);
  }
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    if (recomputed.contains(*layer)) need(model.needs[at(*layer)].forward);
  return {recomputed.begin(), recomputed.end()};
}

}  // namespace

std::vector<Stage> cooperative_stages(const Model& model, const std::vector<int>& bounds) {
  const int positions = static_cast<int>(bounds.size()) - 1;
  std::vector<Rank> everyone(at(positions));
  std::iota(everyone.begin(), everyone.end(), 0);
  std::vector<Stage> forwards, backwards, recomputes;
  for (int k = 0; k < positions; ++k) {
    const std::vector<LayerId> layers = interval(bounds[at(k)], bounds[at(k + 1)]);
    const bool shared = k + 1 < positions;
    forwards.push_back({.work = Work::forward,
                        .index = k,
                        .layers = layers,
                        .owners = shared ? everyone : std::vector<Rank>{k},
                        .fetches_weights = shared});
    backwards.push_back({.work = Work::backward, .index = k, .layers = layers, .owners = {k}});
    const std::vector<LayerId> again = recomputed_layers(model, layers);
    if (shared && !again.empty())
      recomputes.push_back({.work = Work::recompute, .index = k, .layers = again, .owners = {k}});
  }
  std::vector<Stage> stages = std::move(forwards);
  stages.insert(stages.end(), backwards.begin(), backwards.end());
  stages.insert(stages.end(), recomputes.begin(), recomputes.end());
  return stages;
}

Figure cooperative(const Plan& plan, std::vector<Position> positions) {
  const int depth = static_cast<int>(positions.size());
  int last = depth - 1;
  while (positions[at(last)].forward == kNone) --last;
  FigureWriter write(plan, std::move(positions));
  for (int k = 0; k < last; ++k)
    for (int m = 0; m < plan.microbatches; ++m) write.forward(k, m);
  for (int m = 0; m < plan.microbatches; ++m) {
    write.forward(last, m);
    for (int k = depth - 1; k >= 0; --k) write.backward(k, m);
    for (int k = 0; k < depth; ++k) write.backward_weight(k, m);
  }
  write.updates();
  return write.take();
}

Figure stage_by_stage(const Plan& plan, std::vector<Position> positions) {
  for (Position& position : positions) position.backward_delay = position.weight_delay = kNone;
  const int depth = static_cast<int>(positions.size());
  FigureWriter write(plan, std::move(positions));
  for (int k = 0; k < depth; ++k)
    for (int m = 0; m < plan.microbatches; ++m) write.forward(k, m);
  return write.take();
}

}  // namespace sluice
