#pragma once

#include <random>

#include "core/cluster.h"
#include "core/index.h"
#include "core/profile.h"
#include "core/text.h"

namespace sluice::testing {

/// Small random profiles and clusters; the same seed gives the same ones.
class RandomCase {
 public:
  explicit RandomCase(unsigned seed) : generator_(seed) {}

  int between(int least, int most) { return std::uniform_int_distribution(least, most)(generator_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(generator_); }

  enum class Graph { chain, skips, branches };

  /// A chain, a chain with skips, or branches that meet: each layer reads earlier outputs or the dataset.
  Profile profile(int layers, bool chain) { return profile(layers, chain ? Graph::chain : Graph::skips); }
  Profile profile(int layers, Graph graph) {
    Profile profile;
    profile.model.name = "random";
    profile.model.tensors.push_back(tensor("input", kDataset, TensorKind::input));
    profile.model.tensors.push_back(tensor("labels", kDataset, TensorKind::labels));
    std::vector<TensorId> outputs{0};
    for (LayerId l = 0; l < layers; ++l) add_layer(profile, l, graph, outputs);
    return profile;
  }

  Cluster cluster(int ranks, bool equal_ranks, std::int64_t memory_bytes = kUnlimitedMemory) {
    const double bandwidth = chance(0.3) ? 1e3 : between(10, 200);
    Cluster cluster = uniform_cluster(1, ranks, {0, bandwidth}, {0, bandwidth / 2}, memory_bytes);
    if (!equal_ranks)
      for (RankSpec& rank : cluster.ranks) rank.speed = between(1, 4) * 0.5;
    return cluster;
  }

 private:
  Tensor tensor(const std::string& name, LayerId producer, TensorKind kind) {
    Tensor tensor;
    tensor.name = name;
    tensor.producer = producer;
    tensor.kind = kind;
    tensor.bytes = between(0, 50);
    return tensor;
  }

  void add_layer(Profile& profile, LayerId l, Graph graph, std::vector<TensorId>& outputs) {
    Model& model = profile.model;
    Layer layer;
    layer.name = text("layer", l);
    model.layers.push_back(layer);
    LayerNeeds needs;
    if (graph == Graph::branches) std::swap(outputs[at(between(0, l))], outputs.back());
    needs.forward.push_back(outputs.back());
    if (graph != Graph::chain)
      for (std::size_t t = 0; t + 1 < outputs.size(); ++t)
        if (chance(graph == Graph::skips ? 0.3 : 0.15)) needs.forward.push_back(outputs[t]);
    outputs.push_back(static_cast<TensorId>(model.tensors.size()));
    model.tensors.push_back(tensor(text("out", l), l, TensorKind::output));
    for (const TensorId t : needs.forward) {
      if (chance(0.4)) needs.backward_input.push_back(t);
      if (chance(0.7)) needs.backward_weight.push_back(t);
    }
    if (chance(0.4)) needs.backward_input.push_back(outputs.back());
    if (chance(0.4)) {
      needs.backward_input.push_back(static_cast<TensorId>(model.tensors.size()));
      model.tensors.push_back(tensor(text("aux", l), l, TensorKind::auxiliary));
    }
    model.needs.push_back(needs);
    LayerCost cost;
    cost.forward_s = between(0, 9);
    cost.backward_input_s = between(0, 9);
    cost.backward_weight_s = between(0, 9);
    cost.update_s = between(0, 3);
    cost.parameter_bytes = between(0, 40);
    cost.packed_bytes = between(0, 10);
    cost.workspace_bytes = between(0, 30);
    profile.costs.push_back(cost);
  }

  std::mt19937 generator_;
};

}  // namespace sluice::testing
