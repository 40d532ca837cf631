#include "optimizer/solver/msr_apart.h"

#include <algorithm>

#include "core/index.h"
#include "optimizer/solver/msr_graph.h"
#include "optimizer/solver/msr_moves.h"
#include "optimizer/solver/msr_price.h"
#include "optimizer/solver/msr_search.h"

namespace sluice {
namespace {

/// Pairs of prefixes that a search takes seconds for.
constexpr std::size_t kMostPairs = 500'000;

void take_if_better(const Profile& profile, const Cluster& cluster, std::vector<Stage> stages, Solution& solution) {
  const double price = msr_price(profile, cluster, stages);
  if (price >= solution.price) return;
  solution.price = price;
  solution.stages = std::move(stages);
}

/// Two chains: the forward and the backward units, in the order of the solution's devices.
WorkGraph chains_of(const Profile& profile, const MsrGraph& graph, const std::vector<Stage>& stages) {
  std::vector<int> stage_of(profile.model.layers.size());
  for (const Stage& stage : stages)
    for (const LayerId layer : stage.layers) stage_of[at(layer)] = stage.index;
  const auto layer_of = [&](int unit) { return at(graph.order.units[at(unit)].works.front().layer); };
  std::vector<int> chains[2];
  for (int unit = 0; unit < std::ssize(graph.weights); ++unit)
    chains[profile.model.layers[layer_of(unit)].backward ? 1 : 0].push_back(unit);
  WorkGraph order{graph.order.units, std::vector<std::vector<int>>(graph.weights.size())};
  for (auto& chain : chains) {
    std::stable_sort(chain.begin(), chain.end(),
                     [&](int a, int b) { return stage_of[layer_of(a)] < stage_of[layer_of(b)]; });
    for (std::size_t i = 1; i < chain.size(); ++i) order.successors[at(chain[i - 1])] = {chain[i]};
  }
  const bool too_many = (chains[0].size() + 1) * (chains[1].size() + 1) > kMostPairs;
  return too_many ? WorkGraph{} : order;
}

}  // namespace

void drop_colocation(const Profile& profile, const Cluster& cluster, Deadline deadline, Solution& solution) {
  const MsrGraph graph = msr_graph(profile, cluster, false);
  const auto& layers = profile.model.layers;
  if (std::none_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.backward; })) {
    const MsrPartition best = search_msr(graph, graph.order, cluster, solution.price, deadline);
    solution.lower_bound = std::min(best.lower_bound, solution.price);
    solution.timed_out |= best.timed_out;
    take_if_better(profile, cluster, stages_of(graph, best), solution);
    return;
  }
  solution.lower_bound = msr_floor(graph, cluster);
  for (double before = 2 * solution.price; solution.price < before * (1 - 1e-6);) {
    before = solution.price;
    take_if_better(profile, cluster, moved(profile, cluster, graph, solution.stages, deadline), solution);
    const WorkGraph chains = chains_of(profile, graph, solution.stages);
    if (chains.units.empty()) continue;
    const MsrPartition best = search_msr(graph, chains, cluster, solution.price, deadline);
    solution.timed_out |= best.timed_out;
    take_if_better(profile, cluster, stages_of(graph, best), solution);
  }
}

}  // namespace sluice
