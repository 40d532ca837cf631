#include "optimizer/solver/msr_price.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/msr_apart.h"
#include "optimizer/solver/msr_graph.h"
#include "optimizer/solver/msr_search.h"

namespace sluice {
namespace {

constexpr std::size_t kMostLayers = 20'000;  ///< searches go as deep as there are layers

void require_supported(const Profile& profile, const Cluster& cluster) {
  if (profile.costs.size() > kMostLayers)
    throw infeasible(
        text("--cost msr takes up to ", kMostLayers, " layers, but the profile has ", profile.costs.size()));
  bool any_forward_s = false, any_host_s = false;
  for (std::size_t l = 0; l < profile.costs.size(); ++l) {
    const LayerCost& cost = profile.costs[l];
    if (cost.backward_input_s > 0 || cost.backward_weight_s > 0)
      throw infeasible(text("--cost msr takes graphs whose backward nodes are layers of their own, but ",
                            profile.model.layers[l].name, " has backward times: import one by sluice import msr"));
    any_forward_s |= cost.forward_s > 0;
    any_host_s |= cost.host_s > 0;
  }
  const bool any_host = std::any_of(cluster.ranks.begin(), cluster.ranks.end(), [](const auto& r) { return r.host; });
  if (any_host && any_forward_s && !any_host_s)
    throw infeasible("the cluster has host CPUs, but the profile does not know how long layers take there (host_s)");
}

bool colocates(const Model& model) {
  std::set<int> classes;
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const Layer& layer) {
    return layer.backward || (layer.colocation != kNone && !classes.insert(layer.colocation).second);
  });
}

}  // namespace

std::vector<double> msr_loads(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages) {
  const Model& model = profile.model;
  std::vector<Rank> owner(model.layers.size(), kNone);
  std::vector<MsrWeight> weights(cluster.ranks.size());
  for (const Stage& stage : stages)
    for (const LayerId layer : stage.layers) {
      owner[at(layer)] = stage.owners.front();
      weights[at(stage.owners.front())] += msr_weight(profile.costs[at(layer)]);
    }
  std::vector<double> transfers_s(cluster.ranks.size());
  const auto consumers = consumers_by_tensor(model);
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    if (model.tensors[t].producer == kDataset) continue;
    std::set<Rank> ranks{owner[at(model.tensors[t].producer)]};
    for (const LayerId consumer : consumers[t]) ranks.insert(owner[at(consumer)]);
    if (ranks.size() < 2) continue;
    for (const Rank rank : ranks) transfers_s[at(rank)] += msr_transfer_s(model.tensors[t], cluster);
  }
  std::vector<double> loads;
  for (std::size_t rank = 0; rank < weights.size(); ++rank)
    loads.push_back(msr_load(weights[rank], transfers_s[rank], cluster.ranks[rank]));
  return loads;
}

double msr_price(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages) {
  if (stages.empty()) return kInfinity;
  const std::vector<double> loads = msr_loads(profile, cluster, stages);
  return *std::max_element(loads.begin(), loads.end());
}

Solution solve_msr(const Problem& problem, Deadline deadline) {
  const Profile& profile = problem.profile;
  const Cluster& cluster = problem.cluster;
  require_supported(profile, cluster);
  const MsrGraph graph = msr_graph(profile, cluster, true);
  const MsrPartition joint = search_msr(graph, graph.order, cluster, kInfinity, deadline);
  Solution solution;
  solution.stages = stages_of(graph, joint);
  solution.price = msr_price(profile, cluster, solution.stages);
  solution.lower_bound = joint.lower_bound;
  solution.timed_out = joint.timed_out;
  if (problem.space.cuts != Cuts::joint && colocates(profile.model))
    drop_colocation(profile, cluster, deadline, solution);
  return solution;
}

}  // namespace sluice
