#include "optimizer/solver/work_graph.h"

#include <algorithm>

namespace sluice {
namespace {

/// The works that share a cut vector.
std::vector<std::vector<Work>> works_cut_together(Cuts cuts) {
  switch (cuts) {
    case Cuts::joint:
      return {{Work::forward, Work::backward}};
    case Cuts::independent:
      return {{Work::forward}, {Work::backward}};
    case Cuts::three:
      return {{Work::forward}, {Work::backward_input}, {Work::backward_weight}};
  }
  return {};
}

/// The layers that read what each layer makes; of a chain, the next.
std::vector<std::vector<int>> followers(const Model& model, bool ideals) {
  std::vector<std::vector<int>> next(model.layers.size());
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
    if (!ideals) {
      if (layer > 0) next[at(layer - 1)].push_back(layer);
      continue;
    }
    for (const TensorId tensor : model.needs[at(layer)].forward) {
      const LayerId producer = model.tensors[at(tensor)].producer;
      if (producer != kDataset && (next[at(producer)].empty() || next[at(producer)].back() != layer))
        next[at(producer)].push_back(layer);
    }
  }
  return next;
}

}  // namespace

WorkGraph work_graph(const Model& model, const SearchSpace& space) {
  const std::vector<std::vector<int>> next = followers(model, space.ideals);
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
