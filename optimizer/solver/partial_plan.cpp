#include "optimizer/solver/partial_plan.h"

#include <algorithm>
#include <numeric>

#include "core/cost_model.h"
#include "core/index.h"

namespace sluice {
namespace {

/// One more rank: on the same node if there is but one, else on a node of its own.
Cluster extended(const Cluster& cluster) {
  Cluster more = cluster;
  RankSpec rank;
  if (cluster.node_names.size() > 1) {
    rank.node = static_cast<int>(cluster.node_names.size());
    more.node_names.emplace_back("rest");
  }
  more.ranks.push_back(rank);
  return more;
}

}  // namespace

PartialPlan::PartialPlan(const Problem& problem)
    : problem_(&problem),
      works_(works_of(problem.space.cuts)),
      cost_(problem.profile, problem.cluster, problem.pricing),
      extended_(extended(problem.cluster)),
      extended_cost_(problem.profile, extended_, problem.pricing),
      used_(problem.cluster.ranks.size(), false),
      busy_s_(problem.cluster.ranks.size(), 0.0) {
  for (const LayerCost& cost : problem.profile.costs)
    for (const Work work : works_) {
      left_s_ += work_time(cost, work) +
                 (updates_weights(work) ? cost.update_s / microbatches_per_update(problem.pricing) : 0);
      ++layers_left_;
    }
}

void PartialPlan::open_group(std::vector<Rank> ranks) {
  for (const Rank rank : ranks) used_[at(rank)] = true;
  groups_.push_back({std::move(ranks), {}});
}

void PartialPlan::close_group() {
  for (const Rank rank : groups_.back().ranks) used_[at(rank)] = false;
  groups_.pop_back();
}

bool PartialPlan::can_take(const Group& group, Work work) const {
  return std::find(group.works.begin(), group.works.end(), work) == group.works.end();
}

void PartialPlan::push(Work work, int position, std::vector<LayerId> layers, int group) {
  Group& owner = groups_[at(group)];
  stages_.push_back({work, position, std::move(layers), owner.ranks});
  owner.works.push_back(work);
  owner_.push_back(group);
  count(stages_.back(), +1);
}

void PartialPlan::pop() {
  count(stages_.back(), -1);
  groups_[at(owner_.back())].works.pop_back();
  owner_.pop_back();
  stages_.pop_back();
}

void PartialPlan::count(const Stage& stage, int sign) {
  const int microbatches = problem_->pricing.microbatches, replicas = static_cast<int>(stage.owners.size());
  double each_s = 0, once_s = 0;
  for (const LayerId layer : stage.layers) {
    each_s += work_time(problem_->profile.costs[at(layer)], stage.work);
    if (updates_weights(stage.work))
      once_s += problem_->profile.costs[at(layer)].update_s / microbatches_per_update(problem_->pricing);
  }
  for (int replica = 0; replica < replicas; ++replica)
    busy_s_[at(stage.owners[at(replica)])] +=
        sign * (each_s * microbatches_of(replica, replicas, microbatches) / microbatches + once_s);
  if (stage.work == Work::recompute) return;
  left_s_ -= sign * (each_s + once_s);
  layers_left_ -= sign * static_cast<int>(stage.layers.size());
}

double PartialPlan::price() const {
  const Loads loads = loads_of(cost_, stages_);
  return bottleneck(problem_->cluster, loads, problem_->pricing).seconds;
}

bool PartialPlan::is_closed(const Group& group) const {
  return !problem_->space.free_backward ||
         std::none_of(works_.begin(), works_.end(), [&](Work work) { return can_take(group, work); });
}

double PartialPlan::compute_bound() const {
  const std::vector<RankSpec>& ranks = problem_->cluster.ranks;
  double busiest_s = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    busiest_s = std::max(busiest_s, busy_s_[rank] / ranks[rank].speed);
  if (complete()) return busiest_s;
  double shared_s = left_s_, speed = 0;
  const auto share = [&](Rank rank) {
    shared_s += busy_s_[at(rank)];
    speed += ranks[at(rank)].speed;
  };
  for (Rank rank = 0; rank < std::ssize(ranks); ++rank)
    if (!used_[at(rank)]) share(rank);
  for (const Group& group : groups_)
    if (!is_closed(group)) std::for_each(group.ranks.begin(), group.ranks.end(), share);
  return speed > 0 ? std::max(busiest_s, shared_s / speed) : kInfinity;
}

std::vector<Stage> PartialPlan::with_rest() const {
  const int position = stages_.empty() ? 0 : stages_.back().index + 1;
  const Rank rest = static_cast<Rank>(extended_.ranks.size()) - 1;
  std::vector<Stage> stages = stages_;
  for (const Work work : works_) {
    std::vector<bool> placed(problem_->profile.costs.size(), false);
    for (const Stage& stage : stages_)
      for (const LayerId layer : stage.layers)
        if (stage.work == work) placed[at(layer)] = true;
    Stage left{work, position, {}, {rest}};
    for (LayerId layer = 0; layer < std::ssize(placed); ++layer)
      if (!placed[at(layer)]) left.layers.push_back(layer);
    if (!left.layers.empty()) stages.push_back(std::move(left));
  }
  return stages;
}

double PartialPlan::bound() const {
  Loads loads = loads_of(extended_cost_, with_rest());
  const double rest_s = rest_bound(loads);
  forget_uncertain(loads);
  return std::max(rest_s, bottleneck(extended_, loads, problem_->pricing).seconds);
}

bool PartialPlan::rest_may_recompute() const {
  return problem_->space.recompute && (problem_->space.cuts != Cuts::joint || problem_->space.free_backward);
}

/// Several workers hold, receive and send no less than one that does all their work: unions over tensors.
double PartialPlan::rest_bound(const Loads& loads) const {
  if (problem_->space.free_backward || rest_may_recompute()) return 0;
  const Cluster& cluster = problem_->cluster;
  double memory_bytes = 0, bandwidth = 0;
  std::vector<bool> node_has_room(cluster.node_names.size(), false);
  for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank) {
    if (used_[at(rank)]) continue;
    const RankSpec& spec = cluster.ranks[at(rank)];
    memory_bytes += static_cast<double>(spec.memory_bytes);
    bandwidth += cluster.intra_node.bandwidth_bytes_per_s;
    node_has_room[at(spec.node)] = true;
  }
  if (cluster.node_names.size() > 1)
    bandwidth += cluster.inter_node.bandwidth_bytes_per_s *
                 static_cast<double>(std::count(node_has_room.begin(), node_has_room.end(), true));
  const RankLoad& rest = loads.ranks.back();
  if (!problem_->space.recompute && static_cast<double>(rest.memory_bytes) > memory_bytes) return kInfinity;
  if (problem_->pricing.compute_only) return 0;
  const NodeLoad nic = cluster.node_names.size() > 1 ? loads.nodes.back() : NodeLoad{};
  return std::max(rest.received_bytes + nic.received_bytes, rest.sent_bytes + nic.sent_bytes) / bandwidth;
}

WorkerTally PartialPlan::tally_of(int group) const {
  WorkerTally tally(cost_);
  for (std::size_t stage = 0; stage < stages_.size(); ++stage)
    if (owner_[stage] == group)
      for (const LayerId layer : stages_[stage].layers) tally.add({layer, stages_[stage].work});
  return tally;
}

std::int64_t PartialPlan::memory_limit(int group) const {
  std::int64_t least = kUnlimitedMemory;
  for (const Rank rank : groups_[at(group)].ranks)
    least = std::min(least, problem_->cluster.ranks[at(rank)].memory_bytes);
  return least;
}

double PartialPlan::group_bound(int group) const {
  const int replicas = static_cast<int>(groups_[at(group)].ranks.size()), later = complete() ? 0 : 1;
  // Where backwards are dealt freely, a position has two groups, and the larger one counts.
  const int ranks =
      problem_->space.free_backward ? replicas : static_cast<int>(std::count(used_.begin(), used_.end(), true));
  const Seat seat{replicas, replicas + later, ranks + later};
  WorkerLoad load = tally_of(group).load();
  if (rest_may_recompute()) load.sent_bytes = load.least_sent_bytes;
  return cost_.memory_bytes(load, seat) > memory_limit(group) ? kInfinity : cost_.link_s(load, seat);
}

bool PartialPlan::recompute_may_help(int group) const {
  const WorkerTally tally = tally_of(group);
  for (LayerId layer = 0; layer < std::ssize(problem_->profile.costs); ++layer)
    if (tally.runs({layer, works_[1]}) && !tally.runs({layer, Work::forward})) return true;
  const int replicas = static_cast<int>(groups_[at(group)].ranks.size());
  // Where backwards are dealt freely, a rank may count at one position for each work.
  const int times = problem_->space.free_backward ? static_cast<int>(works_.size()) : 1;
  const int ranks = times * static_cast<int>(problem_->cluster.ranks.size());
  return cost_.memory_bytes(tally.load(), {replicas, ranks, ranks}) > memory_limit(group);
}

/// - The rest itself: nothing.
/// - A group that may take more: its compute, and its memory if it has a forward alone; a forward added to a backward
///   may lower it, since what arrives is counted higher than what is made here.
/// - A closed group: also its memory, and what it receives over its link: if what is left comes to lie on its node,
///   that can only be more. But what it sends may then pass it by (another rank of the node passes
///   on what enters), and less may cross the NIC.
/// - A node without such a rank, or the only node: everything, but what is sent through the NIC if a
///   group spans nodes: another of its replicas may turn out to be nearer to who needs the weights.
/// Nothing that is sent, though, if a backward apart from its forward may recompute instead of receiving it.
void PartialPlan::forget_uncertain(Loads& loads) const {
  const std::vector<RankSpec>& ranks = problem_->cluster.ranks;
  std::vector<bool> closed(ranks.size(), false), holds(ranks.size(), false), open_node(loads.nodes.size(), false),
      spanned(loads.nodes.size(), false);
  for (const Group& group : groups_)
    for (const Rank rank : group.ranks) {
      closed[at(rank)] = is_closed(group);
      holds[at(rank)] = closed[at(rank)] || group.works == std::vector{Work::forward};
      if (ranks[at(rank)].node != ranks[at(group.ranks.front())].node)
        for (const Rank member : group.ranks) spanned[at(ranks[at(member)].node)] = true;
    }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (!closed[rank]) open_node[at(ranks[rank].node)] = true;
  const int nodes = static_cast<int>(problem_->cluster.node_names.size());
  loads.ranks.back() = {};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!closed[rank]) loads.ranks[rank].received_bytes = loads.ranks[rank].sent_bytes = 0;
    if (!holds[rank]) loads.ranks[rank].memory_bytes = 0;
    if (rest_may_recompute() || (nodes > 1 && open_node[at(ranks[rank].node)])) loads.ranks[rank].sent_bytes = 0;
  }
  for (int node = 0; node < std::ssize(loads.nodes); ++node) {
    if (node >= nodes || open_node[at(node)]) loads.nodes[at(node)] = {};
    if (rest_may_recompute() || spanned[at(node)]) loads.nodes[at(node)].sent_bytes = 0;
  }
}

}  // namespace sluice
