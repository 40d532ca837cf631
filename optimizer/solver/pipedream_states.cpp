#include "optimizer/solver/pipedream_states.h"

#include <algorithm>
#include <set>

#include "core/index.h"

namespace sluice {
namespace {

using LayerSet = std::vector<bool>;

std::vector<std::vector<LayerId>> predecessors_of(const Model& model) {
  std::vector<std::vector<LayerId>> predecessors(model.layers.size());
  for (std::size_t l = 0; l < predecessors.size(); ++l)
    for (const TensorId t : model.needs[l].forward)
      if (model.tensors[at(t)].producer != kDataset) predecessors[l].push_back(model.tensors[at(t)].producer);
  return predecessors;
}

/// Breadth first, so in order of size.
std::vector<LayerSet> ideals_of(const Model& model) {
  const auto predecessors = predecessors_of(model);
  std::vector<LayerSet> ideals{LayerSet(model.layers.size())};
  std::set<LayerSet> known(ideals.begin(), ideals.end());
  for (std::size_t i = 0; i < ideals.size(); ++i) {
    for (std::size_t l = 0; l < predecessors.size(); ++l) {
      const auto holds = [&](LayerId p) { return ideals[i][at(p)]; };
      if (ideals[i][l] || !std::all_of(predecessors[l].begin(), predecessors[l].end(), holds)) continue;
      LayerSet larger = ideals[i];
      larger[l] = true;
      if (known.insert(larger).second) ideals.push_back(std::move(larger));
    }
  }
  return ideals;
}

std::vector<LayerSet> prefixes_of(const Model& model) {
  std::vector<LayerSet> prefixes{LayerSet(model.layers.size())};
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    prefixes.push_back(prefixes.back());
    prefixes.back()[l] = true;
  }
  return prefixes;
}

PipedreamState state_of(const Profile& profile, const std::vector<std::vector<LayerId>>& consumers, LayerSet layers) {
  PipedreamState state;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (!layers[l]) continue;
    const LayerCost& cost = profile.costs[l];
    state.compute_s += cost.forward_s + cost.backward_input_s + cost.backward_weight_s;
    state.parameter_bytes += static_cast<double>(cost.parameter_bytes);
  }
  for (std::size_t t = 0; t < consumers.size(); ++t) {
    const Tensor& tensor = profile.model.tensors[t];
    if (tensor.producer == kDataset || !layers[at(tensor.producer)]) continue;
    const auto outside = [&](LayerId consumer) { return !layers[at(consumer)]; };
    state.output_bytes += static_cast<double>(tensor.bytes);
    if (std::any_of(consumers[t].begin(), consumers[t].end(), outside))
      state.crossing_bytes += static_cast<double>(tensor.bytes);
  }
  state.layers = std::move(layers);
  return state;
}

}  // namespace

std::vector<LayerId> layers_between(const PipedreamState& first, const PipedreamState& last) {
  std::vector<LayerId> layers;
  for (std::size_t l = 0; l < last.layers.size(); ++l)
    if (last.layers[l] && !first.layers[l]) layers.push_back(static_cast<LayerId>(l));
  return layers;
}

bool contains(const PipedreamState& outer, const PipedreamState& inner) {
  for (std::size_t l = 0; l < inner.layers.size(); ++l)
    if (inner.layers[l] && !outer.layers[l]) return false;
  return true;
}

std::vector<PipedreamState> pipedream_states(const Profile& profile, bool ideals) {
  const auto consumers = consumers_by_tensor(profile.model);
  std::vector<PipedreamState> states;
  for (LayerSet& layers : ideals ? ideals_of(profile.model) : prefixes_of(profile.model))
    states.push_back(state_of(profile, consumers, std::move(layers)));
  return states;
}

}  // namespace sluice
