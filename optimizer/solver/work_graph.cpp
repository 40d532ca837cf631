#include "optimizer/solver/work_graph.h"

#include <algorithm>

#include "core/topological_order.h"

namespace sluice {
std::vector<std::vector<Work>> works_cut_together(Cuts cuts) {
  if (cuts == Cuts::joint) return {works_of(cuts)};
  std::vector<std::vector<Work>> apart;
  for (const Work work : works_of(cuts)) apart.push_back({work});
  return apart;
}

std::vector<std::vector<LayerId>> layers_before(const Model& model, bool ideals) {
  std::vector<std::vector<LayerId>> before(model.layers.size());
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
    std::vector<LayerId>& own = before[at(layer)];
    if (!ideals) {
      if (layer > 0) own.push_back(layer - 1);
      continue;
    }
    for (const TensorId tensor : model.needs[at(layer)].forward)
      if (const LayerId producer = model.tensors[at(tensor)].producer; producer != kDataset) own.push_back(producer);
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
  }
  return before;
}

WorkGraph work_graph(const Model& model, const SearchSpace& space) {
  const std::vector<std::vector<LayerId>> next = reversed(layers_before(model, space.ideals));
  WorkGraph graph;
  for (const std::vector<Work>& works : works_cut_together(space.cuts)) {
    const int first = static_cast<int>(graph.units.size());
    for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
      Unit& unit = graph.units.emplace_back();
      for (const Work work : works) unit.works.push_back({layer, work});
      std::vector<int>& successors = graph.successors.emplace_back(next[at(layer)]);
      for (int& successor : successors) successor += first;
    }
  }
  return graph;
}

std::vector<Stage> stages_of(const std::vector<Worker>& workers) {
  std::vector<Stage> stages;
  for (const Work work :
       {Work::forward, Work::backward, Work::backward_input, Work::backward_weight, Work::recompute}) {
    for (std::size_t index = 0; index < workers.size(); ++index) {
      Stage stage{work, static_cast<int>(index), {}, workers[index].ranks};
      for (const LayerWork& own : workers[index].works)
        if (own.work == work) stage.layers.push_back(own.layer);
      std::sort(stage.layers.begin(), stage.layers.end());
      if (!stage.layers.empty()) stages.push_back(std::move(stage));
    }
  }
  return stages;
}

}  // namespace sluice
