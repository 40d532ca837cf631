#include "optimizer/solver/pipedream_states.h"

#include <algorithm>

#include "core/index.h"
#include "optimizer/solver/ideals.h"

namespace sluice {
namespace {

using LayerSet = std::vector<bool>;

/// In order of size.
std::vector<LayerSet> ideals_of(const Model& model, bool ideals, std::int64_t most) {
  const WorkGraph graph = work_graph(model, {.cuts = Cuts::joint, .ideals = ideals});
  IdealLattice lattice(graph, most);
  std::vector<int> order;
  for (int i = 0; i < lattice.count(); ++i) {
    (void)lattice.below(i);  // finds further ones
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return lattice.units_in(a) < lattice.units_in(b); });
  std::vector<LayerSet> sets;
  for (const int i : order) {
    LayerSet& set = sets.emplace_back(model.layers.size());
    for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) set[at(layer)] = lattice.holds(i, layer);
  }
  return sets;
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

std::vector<PipedreamState> pipedream_states(const Profile& profile, bool ideals, std::int64_t most) {
  const auto consumers = consumers_by_tensor(profile.model);
  std::vector<PipedreamState> states;
  for (LayerSet& layers : ideals_of(profile.model, ideals, most))
    states.push_back(state_of(profile, consumers, std::move(layers)));
  return states;
}

}  // namespace sluice
