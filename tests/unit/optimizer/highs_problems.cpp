// Writes random problems and their optima by our integer program, as JSON, for highs_oracle.py to
// solve again: joint and independent cuts of chains and DAGs, on one node or where ranks share NICs.
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/index.h"
#include "optimizer/solver/ilp.h"
#include "random_problem.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

OwnedProblem problem_of(unsigned seed) {
  const bool shares_nics = seed % 3 == 0;
  const int ranks = shares_nics ? 3 + static_cast<int>(seed / 3) % 2 : 2 + static_cast<int>(seed) % 3;
  OwnedProblem owned = RandomProblem(seed).of(shares_nics ? 5 : 7, ranks);
  owned.cluster = uniform_cluster(1, ranks, owned.cluster.intra_node, owned.cluster.inter_node);
  if (shares_nics) {  // and links inside nodes are free
    owned.cluster.intra_node.bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
    owned.cluster.node_names = {"a", "b"};
    for (Rank rank = 2; rank < ranks; ++rank) owned.cluster.ranks[at(rank)].node = 1;
  }
  owned.pricing.compute_only = false;
  owned.space = {.cuts = seed % 2 == 0 ? Cuts::independent : Cuts::joint};
  return owned;
}

json layers_of(const Profile& profile, int microbatches) {
  json layers = json::array();
  for (LayerId layer = 0; layer < std::ssize(profile.costs); ++layer) {
    const LayerCost& cost = profile.costs[at(layer)];
    const LayerNeeds& needs = profile.model.needs[at(layer)];
    std::vector<TensorId> backward_reads = needs.backward_input;
    backward_reads.insert(backward_reads.end(), needs.backward_weight.begin(), needs.backward_weight.end());
    layers.push_back({{"forward_s", cost.forward_s},
                      {"backward_s", cost.backward_input_s + cost.backward_weight_s},
                      {"update_s", cost.update_s / microbatches},
                      {"parameter_bytes", static_cast<double>(cost.parameter_bytes) / microbatches},
                      {"forward_reads", needs.forward},
                      {"backward_reads", backward_reads}});
  }
  return layers;
}

json tensors_of(const Model& model) {
  json tensors = json::array();
  for (TensorId tensor = 0; tensor < std::ssize(model.tensors); ++tensor) {
    const Tensor& t = model.tensors[at(tensor)];
    tensors.push_back({{"producer", t.producer}, {"bytes", t.bytes}, {"gradient", has_gradient(model, tensor)}});
  }
  return tensors;
}

json solved(unsigned seed) {
  const OwnedProblem owned = problem_of(seed);
  const Cluster& cluster = owned.cluster;
  const bool one_node = cluster.node_names.size() == 1;
  std::vector<int> borders;  // of each rank: which link it shares
  for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank)
    borders.push_back(one_node ? rank : cluster.ranks[at(rank)].node);
  const LinkClass& link = one_node ? cluster.intra_node : cluster.inter_node;
  return {{"seed", seed},
          {"joint", owned.space.cuts == Cuts::joint},
          {"layers", layers_of(owned.profile, owned.pricing.microbatches)},
          {"tensors", tensors_of(owned.profile.model)},
          {"borders", borders},
          {"bandwidth", link.bandwidth_bytes_per_s},
          {"optimum", solve_ilp(owned.problem()).price}};
}

}  // namespace
}  // namespace sluice::testing

int main() {
  nlohmann::json problems = nlohmann::json::array();
  for (unsigned seed = 0; seed < 30; ++seed) problems.push_back(sluice::testing::solved(seed));
  std::cout << problems << '\n';
}
