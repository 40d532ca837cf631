#include "optimizer/solver/node_groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/index.h"

namespace sluice {
namespace {

/// The most intervals that are searched: many paths differ by little, and the first ones are the best balanced.
constexpr std::size_t kMostSearches = 400;

/// The bottleneck of one of several nodes in lockstep: a worker there stands for as many replicas on each.
class LockstepPrice : public WorkerObjective {
 public:
  LockstepPrice(const WorkerCost& cost, int nodes, int ranks_behind)
      : bottleneck_(cost), nodes_(nodes), ranks_behind_(ranks_behind) {}
  [[nodiscard]] const WorkerCost& cost() const override { return bottleneck_.cost(); }
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override {
    Seat all = seat;
    all.replicas *= nodes_;
    all.ranks_from_here = ranks_behind_ + (seat.ranks_from_here - ranks_behind_) * nodes_;
    all.ranks = static_cast<int>(cost().cluster().ranks.size());
    const double reduce = nodes_ > 1 ? nic_s(cost(), {}, 0, all_reduce_bytes(load, all.replicas)) : 0;
    return std::max(reduce, bottleneck_.price(load, all, rank));
  }
  [[nodiscard]] double floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const override {
    return bottleneck_.floor(load, most_replicas * nodes_, rank);
  }
  [[nodiscard]] double capacity_s(int replicas, double limit) const override {
    return bottleneck_.capacity_s(replicas * nodes_, limit);
  }

 private:
  BottleneckPrice bottleneck_;
  int nodes_;
  int ranks_behind_;
};

/// The units with one of these layers.
WorkGraph restricted(const WorkGraph& graph, const std::set<LayerId>& layers) {
  WorkGraph part;
  std::vector<int> number(graph.units.size(), kNone);
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    if (!layers.contains(graph.units[u].works.front().layer)) continue;
    number[u] = static_cast<int>(part.units.size());
    part.units.push_back(graph.units[u]);
  }
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    if (number[u] == kNone) continue;
    std::vector<int>& successors = part.successors.emplace_back();
    for (const int successor : graph.successors[u])
      if (number[at(successor)] != kNone) successors.push_back(number[at(successor)]);
  }
  return part;
}

WorkerLoad load_of(const WorkerCost& cost, const Worker& worker) {
  WorkerTally tally(cost);
  for (const LayerWork work : worker.works) tally.add(work);
  return tally.load();
}

}  // namespace

NodeGroups::NodeGroups(const NodePipelines& pipelines, const SearchSpace& space)
    : pipelines_(pipelines), space_(space), graph_(work_graph(pipelines.cost().profile().model, space)) {}

std::vector<Worker> NodeGroups::best(double below, const NodeOrder& order, Deadline deadline) {
  const Cluster& cluster = pipelines_.cost().cluster();
  order_.assign(order.rbegin(), order.rend());
  searched_.clear();
  equal_nodes_ = std::all_of(order.begin(), order.end(),
                             [&](const auto& node) { return nodes_are_equal(cluster, node, order[0]); });
  place_matters_ = !equal_nodes_ || memory_is_limited(cluster);
  speed_.assign(1, 0);
  for (const std::vector<Rank>& node : order_) {
    speed_.push_back(speed_.back());
    for (const Rank rank : node) speed_.back() += cluster.ranks[at(rank)].speed;
  }
  std::vector<Worker> best;
  for (;;) {
    const std::vector<Group> path = least_path(below);
    if (path.empty()) return best;
    bool complete = true;
    for (const Group& group : path) {
      if (searched_.contains(key(group))) continue;
      if (searched_.size() >= kMostSearches || std::chrono::steady_clock::now() > deadline) return best;
      complete = false;
      searched_[key(group)] = search_inside(key(group), below, deadline);
    }
    if (!complete) continue;
    below = 0;
    for (const Group& group : path) below = std::max(below, price(group));
    best = workers(path);
  }
}

/// The groups from first to last whose largest price is least, and below the limit; none if there are no such groups.
std::vector<NodeGroups::Group> NodeGroups::least_path(double below) const {
  struct Reached {
    double price = kInfinity;
    Group group;  ///< that begins here
  };
  const int nodes = static_cast<int>(order_.size());
  const int layers = static_cast<int>(pipelines_.layers().size());
  std::vector<std::vector<Reached>> reached(at(layers) + 1, std::vector<Reached>(at(nodes) + 1));
  reached[at(layers)][0].price = 0;
  const auto extend = [&](int end, int behind, int count) {
    const double rest = reached[at(end)][at(behind)].price;
    const int last = pipelines_.last_prefix_within(below * (speed_.back() - speed_[at(behind + count)]));
    for (Group group{std::min(end - 1, last), end, behind, count}; group.begin >= 0; --group.begin) {
      if (compute_bound(group) >= below) return;
      const double value = std::max(rest, price(group));
      if (Reached& here = reached[at(group.begin)][at(behind + count)]; value < below && value < here.price)
        here = {value, group};
    }
  };
  const bool may_skip = !equal_nodes_ && !space_.exactly;
  for (int end = layers; end > 0; --end)
    for (int behind = 0; behind < nodes; ++behind) {
      const Reached& here = reached[at(end)][at(behind)];
      if (here.price >= below) continue;
      for (int count = 1; count <= most_in_lockstep(behind); ++count) extend(end, behind, count);
      if (Reached& next = reached[at(end)][at(behind) + 1]; may_skip && here.price < next.price) next = here;
    }
  const auto first = space_.exactly ? reached[0].end() - 1 : reached[0].begin();
  const auto least =
      std::min_element(first, reached[0].end(), [](const auto& a, const auto& b) { return a.price < b.price; });
  std::vector<Group> path;
  if (least->price >= below) return path;
  for (const Reached* step = &*least; path.empty() || path.back().end < layers;
       step = &reached[at(path.back().end)][at(path.back().behind)])
    path.push_back(step->group);
  return path;
}

/// Equal nodes from the one with `behind` nodes behind it on.
int NodeGroups::most_in_lockstep(int behind) const {
  const Cluster& cluster = pipelines_.cost().cluster();
  const int most = std::min(space_.most_replicas, static_cast<int>(order_.size()) - behind);
  int count = 1;
  while (count < most && nodes_are_equal(cluster, order_[at(behind)], order_[at(behind + count)])) ++count;
  return count;
}

/// Compute spread evenly over the busiest node's ranks.
double NodeGroups::compute_bound(const Group& group) const {
  const Pricing& pricing = pipelines_.cost().pricing();
  const WorkerLoad& load = pipelines_.load(group.begin, group.end);
  const double busiest =
      share_of(pricing, 1, group.nodes) * load.compute_s + load.update_s / microbatches_per_update(pricing);
  return busiest / (speed_[at(group.behind) + 1] - speed_[at(group.behind)]);
}

double NodeGroups::price(const Group& group) const {
  const WorkerLoad& load = pipelines_.load(group.begin, group.end);
  const double nic = nic_s(pipelines_.cost(), load, share_of(pipelines_.cost().pricing(), 1, group.nodes),
                           all_reduce_bytes(load, group.nodes));
  const auto searched = searched_.find(key(group));
  return std::max({compute_bound(group), nic, searched == searched_.end() ? 0 : searched->second.price});
}

NodeGroups::Group NodeGroups::key(Group group) const {
  if (!place_matters_) group.behind = 0;
  return group;
}

NodeGroups::Inside NodeGroups::search_inside(const Group& group, double below, Deadline deadline) const {
  const WorkerCost& cost = pipelines_.cost();
  SearchScope scope{order_[at(group.behind)]};
  for (int node = 0; node < group.behind; ++node) scope.ranks_behind += static_cast<int>(order_[at(node)].size());
  scope.ranks_before =
      static_cast<int>(cost.cluster().ranks.size()) - scope.ranks_behind - static_cast<int>(scope.ranks.size());
  scope.below = below;
  scope.deadline = deadline;
  SearchSpace space = space_;
  space.most_replicas /= group.nodes;
  const LockstepPrice price(cost, group.nodes, scope.ranks_behind);
  const auto first = pipelines_.layers().begin();
  const std::set<LayerId> layers(first + group.begin, first + group.end);
  Pipeline found = search(restricted(graph_, layers), price, space, scope);
  if (found.workers.empty()) return {kInfinity, {}};
  return {std::max(found.price, busy_nic_s(group, found.workers)), std::move(found.workers)};
}

/// Of each node of the group, with the replicas that the workers have.
double NodeGroups::busy_nic_s(const Group& group, const std::vector<Worker>& workers) const {
  const WorkerCost& cost = pipelines_.cost();
  double step_bytes = 0;
  if (group.nodes > 1)
    for (const Worker& worker : workers)
      step_bytes += all_reduce_bytes(load_of(cost, worker), group.nodes * static_cast<int>(worker.ranks.size()));
  return nic_s(cost, pipelines_.load(group.begin, group.end), share_of(cost.pricing(), 1, group.nodes), step_bytes);
}

/// The workers of all groups, each with the ranks of all nodes of its group.
std::vector<Worker> NodeGroups::workers(const std::vector<Group>& path) const {
  std::vector<Worker> all;
  for (const Group& group : path) {
    const std::vector<Rank>& searched = order_[at(place_matters_ ? group.behind : 0)];
    for (Worker worker : searched_.at(key(group)).workers) {
      const std::vector<Rank> ranks = std::move(worker.ranks);
      worker.ranks.clear();
      for (const Rank rank : ranks) {
        const auto seat = std::find(searched.begin(), searched.end(), rank) - searched.begin();
        for (int node = group.behind + group.nodes - 1; node >= group.behind; --node)
          worker.ranks.push_back(order_[at(node)][static_cast<std::size_t>(seat)]);
      }
      all.push_back(std::move(worker));
    }
  }
  return all;
}

}  // namespace sluice
