#include "optimizer/solver/msr_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/index.h"
#include "core/topological_order.h"

namespace sluice {
namespace {

using Edges = std::vector<std::set<int>>;

/// Groups 0, 1, ... by layer: co-location classes, layers without one alone.
std::vector<int> classes_of(const Model& model) {
  std::map<int, int> group_of_class;
  std::vector<int> group(model.layers.size());
  int groups = 0;
  for (std::size_t l = 0; l < group.size(); ++l) {
    const int colocation = model.layers[l].colocation;
    group[l] = colocation == kNone ? groups : group_of_class.try_emplace(colocation, groups).first->second;
    groups += group[l] == groups ? 1 : 0;
  }
  return group;
}

Edges order_edges(const Model& model, const std::vector<int>& group) {
  std::set<int> with_forward;
  for (std::size_t l = 0; l < group.size(); ++l)
    if (!model.layers[l].backward) with_forward.insert(group[l]);
  Edges edges(static_cast<std::size_t>(*std::max_element(group.begin(), group.end())) + 1);
  for (std::size_t l = 0; l < group.size(); ++l)
    for (const TensorId read : model.needs[l].forward) {
      const LayerId producer = model.tensors[at(read)].producer;
      if (producer == kDataset) continue;
      const int from = group[at(producer)], to = group[l];
      if (!model.layers[l].backward)
        edges[at(from)].insert(to);
      else if (model.layers[at(producer)].backward && !(with_forward.contains(from) && with_forward.contains(to)))
        edges[at(to)].insert(from);
    }
  return edges;
}

/// Strongly connected components (Tarjan 1972), numbered against the order of their edges.
class Components {
 public:
  explicit Components(const Edges& edges) : edges_(edges), of_(edges.size(), kNone), index_(of_), low_(of_) {
    for (int node = 0; node < std::ssize(edges); ++node)
      if (index_[at(node)] == kNone) visit(node);
  }
  [[nodiscard]] const std::vector<int>& of() const { return of_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  void visit(int node) {
    index_[at(node)] = low_[at(node)] = visited_++;
    stack_.push_back(node);
    for (const int next : edges_[at(node)])
      if (index_[at(next)] == kNone) {
        visit(next);
        low_[at(node)] = std::min(low_[at(node)], low_[at(next)]);
      } else if (of_[at(next)] == kNone) {
        low_[at(node)] = std::min(low_[at(node)], index_[at(next)]);
      }
    if (low_[at(node)] != index_[at(node)]) return;
    for (int member = kNone; member != node; stack_.pop_back()) of_[at(member = stack_.back())] = count_;
    ++count_;
  }

  const Edges& edges_;
  std::vector<int> of_, index_, low_, stack_;
  int visited_ = 0, count_ = 0;
};

void add_units(MsrGraph& graph, const Profile& profile, const std::vector<int>& unit) {
  for (LayerId l = 0; l < std::ssize(unit); ++l) {
    graph.order.units[at(unit[at(l)])].works.push_back({l, Work::forward});
    graph.weights[at(unit[at(l)])] += msr_weight(profile.costs[at(l)]);
  }
}

void add_nets(MsrGraph& graph, const Model& model, const std::vector<int>& unit, const Cluster& cluster) {
  std::vector<std::set<int>> touched(model.tensors.size());
  const auto consumers = consumers_by_tensor(model);
  std::map<std::vector<int>, double> seconds;
  for (std::size_t t = 0; t < model.tensors.size(); ++t) {
    if (model.tensors[t].producer == kDataset) continue;
    std::set<int> units{unit[at(model.tensors[t].producer)]};
    for (const LayerId consumer : consumers[t]) units.insert(unit[at(consumer)]);
    if (units.size() > 1) seconds[{units.begin(), units.end()}] += msr_transfer_s(model.tensors[t], cluster);
  }
  for (const auto& [units, transfer_s] : seconds) {
    for (const int u : units) graph.nets_of[at(u)].push_back(static_cast<int>(graph.nets.size()));
    graph.nets.push_back({transfer_s, units});
  }
}

/// Renumbers `group` (by layer) into units: `edges` lead between groups.
MsrGraph contract(const Profile& profile, const Edges& edges, std::vector<int>& group, const Cluster& cluster) {
  const Components components(edges);
  const auto unit_of = [&](int g) { return components.count() - 1 - components.of()[at(g)]; };
  MsrGraph graph;
  graph.order.units.resize(at(components.count()));
  graph.weights.resize(graph.order.units.size());
  graph.nets_of.resize(graph.order.units.size());
  Edges successors(graph.order.units.size());
  for (int from = 0; from < std::ssize(edges); ++from)
    for (const int to : edges[at(from)])
      if (unit_of(from) != unit_of(to)) successors[at(unit_of(from))].insert(unit_of(to));
  for (const auto& targets : successors) graph.order.successors.emplace_back(targets.begin(), targets.end());
  for (int& g : group) g = unit_of(g);
  add_units(graph, profile, group);
  add_nets(graph, profile.model, group, cluster);
  return graph;
}

/// The only unit that it is ordered with, if all its tensors are that one's too; else kNone.
int only_neighbour(const MsrGraph& graph, const std::vector<std::vector<int>>& predecessors, int unit) {
  std::set<int> others(predecessors[at(unit)].begin(), predecessors[at(unit)].end());
  others.insert(graph.order.successors[at(unit)].begin(), graph.order.successors[at(unit)].end());
  if (others.size() != 1) return kNone;
  const auto has_it = [&](int net) {
    const auto& units = graph.nets[at(net)].units;
    return std::binary_search(units.begin(), units.end(), *others.begin());
  };
  const auto& nets = graph.nets_of[at(unit)];
  return std::all_of(nets.begin(), nets.end(), has_it) ? *others.begin() : kNone;
}

/// A unit without weight can follow its only neighbour to any device, which saves transfers or keeps them.
/// Joins such pairs in `edges` and `group`; false if there are none.
bool join_followers(const MsrGraph& graph, bool memory_binds, Edges& edges, std::vector<int>& group) {
  std::vector<int> joined(graph.order.units.size());
  std::iota(joined.begin(), joined.end(), 0);
  const auto predecessors = reversed(graph.order.successors);
  bool any = false;
  for (int u = 0; u < std::ssize(graph.weights); ++u) {
    const MsrWeight& unit = graph.weights[at(u)];
    if (unit.accelerator_s > 0 || unit.host_s > 0 || unit.host_only > 0 || (memory_binds && unit.bytes > 0)) continue;
    const int neighbour = only_neighbour(graph, predecessors, u);
    if (neighbour == kNone || joined[at(neighbour)] != neighbour) continue;
    joined[at(u)] = neighbour;
    any = true;
  }
  std::vector<int> number(joined.size());
  int kept = 0;
  for (std::size_t u = 0; u < joined.size(); ++u)
    if (joined[u] == static_cast<int>(u)) number[u] = kept++;
  edges.assign(at(kept), {});
  for (std::size_t u = 0; u < joined.size(); ++u)
    for (const int to : graph.order.successors[u]) edges[at(number[at(joined[u])])].insert(number[at(joined[at(to)])]);
  for (int& g : group) g = number[at(joined[at(g)])];
  return any;
}

bool memory_binds(const Profile& profile, const Cluster& cluster) {
  std::int64_t bytes = 0;
  for (const LayerCost& cost : profile.costs) bytes += msr_weight(cost).bytes;
  return std::any_of(cluster.ranks.begin(), cluster.ranks.end(),
                     [&](const RankSpec& rank) { return bytes > rank.memory_bytes; });
}

}  // namespace

MsrWeight msr_weight(const LayerCost& cost) {
  return {cost.forward_s, cost.host_s, cost.parameter_bytes + cost.packed_bytes, cost.host_only ? 1 : 0};
}

double msr_transfer_s(const Tensor& tensor, const Cluster& cluster) {
  const bool one_node = std::all_of(cluster.ranks.begin(), cluster.ranks.end(),
                                    [&](const RankSpec& rank) { return rank.node == cluster.ranks[0].node; });
  const LinkClass& link = one_node ? cluster.intra_node : cluster.inter_node;
  return static_cast<double>(tensor.bytes) / link.bandwidth_bytes_per_s;
}

double msr_host_ratio(const MsrGraph& graph) {
  double ratio = 0;
  for (const MsrWeight& unit : graph.weights)
    if (unit.accelerator_s > 0) ratio = std::max(ratio, unit.accelerator_s / unit.host_s);
  return ratio;
}

double msr_floor(const MsrGraph& graph, const Cluster& cluster) {
  const double ratio = msr_host_ratio(graph);
  double capacity = 0, total = 0, largest = 0;
  for (const RankSpec& rank : cluster.ranks) capacity += rank.speed * (rank.host ? ratio : 1);
  for (const MsrWeight& unit : graph.weights) {
    double least = kInfinity;
    for (const RankSpec& rank : cluster.ranks) least = std::min(least, msr_load(unit, 0, rank));
    largest = std::max(largest, least);
    total += unit.accelerator_s;
  }
  return std::max(largest, total / capacity);
}

MsrGraph msr_graph(const Profile& profile, const Cluster& cluster, bool together) {
  std::vector<int> group(profile.model.layers.size());
  std::iota(group.begin(), group.end(), 0);
  if (together) group = classes_of(profile.model);
  Edges edges = order_edges(profile.model, group);
  MsrGraph graph = contract(profile, edges, group, cluster);
  while (join_followers(graph, memory_binds(profile, cluster), edges, group))
    graph = contract(profile, edges, group, cluster);
  return graph;
}

}  // namespace sluice
