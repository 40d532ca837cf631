#include "core/partition_cost.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "core/index.h"
#include "core/plan.h"

namespace sluice {

int share_in_flight(const std::string& schedule, int microbatches, int workers, int position) {
  return schedule == "gpipe" ? microbatches : std::min(microbatches, workers - position);
}

const LinkClass& pricing_link(const Cluster& cluster) {
  std::set<int> nodes;
  for (const RankSpec& rank : cluster.ranks) nodes.insert(rank.node);
  if (nodes.size() == 1) return cluster.intra_node;
  if (nodes.size() == cluster.ranks.size()) return cluster.inter_node;
  const bool intra_is_slower = cluster.intra_node.bandwidth_bytes_per_s < cluster.inter_node.bandwidth_bytes_per_s;
  return intra_is_slower ? cluster.intra_node : cluster.inter_node;
}

void PartitionCost::Meetings::add(const Meetings& other, int sign) {
  made += sign * other.made;
  forward_reads += sign * other.forward_reads;
  backward_reads += sign * other.backward_reads;
  gradient_wanted += sign * other.gradient_wanted;
  gradient_summands += sign * other.gradient_summands;
}

PartitionCost::PartitionCost(const Profile& profile, const Cluster& cluster, std::string schedule, int microbatches,
                             bool compute_only)
    : profile_(&profile),
      cluster_(&cluster),
      schedule_(std::move(schedule)),
      microbatches_(microbatches),
      early_receives_(1 + Plan{}.receive_ahead),
      bandwidth_bytes_per_s_(compute_only ? std::numeric_limits<double>::infinity()
                                          : pricing_link(cluster).bandwidth_bytes_per_s) {
  collect_touches();
  sum_prefixes();
}

void PartitionCost::collect_touches() {
  const Model& model = profile_->model;
  forward_touches_.resize(model.layers.size());
  backward_touches_.resize(model.layers.size());
  everywhere_.resize(model.tensors.size());
  const auto touch = [](std::vector<Touch>& touches, TensorId tensor) -> Meetings& {
    for (Touch& known : touches)
      if (known.tensor == tensor) return known.meetings;
    return touches.emplace_back(Touch{tensor, {}}).meetings;
  };
  const auto made = tensors_by_producer(model);
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
    std::vector<Touch>& forward = forward_touches_[at(layer)];
    std::vector<Touch>& backward = backward_touches_[at(layer)];
    const LayerNeeds& needs = model.needs[at(layer)];
    for (const TensorId tensor : made[at(layer)]) {
      touch(forward, tensor).made = 1;
      if (has_gradient(model, tensor)) touch(backward, tensor).gradient_wanted = 1;
    }
    for (const TensorId tensor : needs.forward) {
      touch(forward, tensor).forward_reads = 1;
      if (has_gradient(model, tensor)) touch(backward, tensor).gradient_summands = 1;
    }
    for (const auto* reads : {&needs.backward_input, &needs.backward_weight})
      for (const TensorId tensor : *reads) touch(backward, tensor).backward_reads = 1;
    for (const auto* touches : {&forward, &backward})
      for (const Touch& t : *touches) everywhere_[at(t.tensor)].add(t.meetings, +1);
  }
}

void PartitionCost::sum_prefixes() {
  forward_s_ = backward_s_ = {0};
  parameters_ = packed_ = {0};
  std::vector<std::int64_t> workspace, gradients;
  for (std::size_t layer = 0; layer < profile_->costs.size(); ++layer) {
    const LayerCost& cost = profile_->costs[layer];
    forward_s_.push_back(forward_s_.back() + cost.forward_s);
    backward_s_.push_back(backward_s_.back() + cost.backward_input_s + cost.backward_weight_s +
                          cost.update_s / microbatches_);
    parameters_.push_back(parameters_.back() + cost.parameter_bytes);
    packed_.push_back(packed_.back() + cost.packed_bytes);
    workspace.push_back(cost.workspace_bytes);
    std::int64_t& gradient = gradients.emplace_back(0);
    for (const Touch& touch : backward_touches_[layer])
      if (touch.meetings.gradient_wanted > 0)
        gradient = std::max(gradient, profile_->model.tensors[at(touch.tensor)].bytes);
  }
  workspace_ = RangeMaximum(std::move(workspace));
  gradients_ = RangeMaximum(std::move(gradients));
}

PartitionCost::RangeMaximum::RangeMaximum(std::vector<std::int64_t> values) : largest_{std::move(values)} {
  for (std::size_t width = 1; 2 * width <= largest_[0].size(); width *= 2) {
    const std::vector<std::int64_t>& half = largest_.back();
    std::vector<std::int64_t> whole;
    for (std::size_t l = 0; l + 2 * width <= largest_[0].size(); ++l)
      whole.push_back(std::max(half[l], half[l + width]));
    largest_.push_back(std::move(whole));
  }
}

std::int64_t PartitionCost::RangeMaximum::of(LayerId begin, LayerId end) const {
  if (begin >= end) return 0;
  const int level = std::bit_width(static_cast<unsigned>(end - begin)) - 1;
  return std::max(largest_[at(level)][at(begin)], largest_[at(level)][at(end - (1 << level))]);
}

PartitionCost::Depth PartitionCost::depth(const ShareSeat& seat) const {
  // The worker that sends has no more micro-batches in flight than the first.
  const auto in_flight = [&](int position) {
    return share_in_flight(schedule_, microbatches_, seat.workers, position);
  };
  return {.own = in_flight(seat.position),
          .arriving = std::min(microbatches_, in_flight(0) + early_receives_),
          .gradient = std::min(microbatches_, in_flight(seat.position) + early_receives_),
          .leaving = std::min(microbatches_, 2),
          .later_workers = seat.workers - 1 - seat.position};
}

PartitionCost::Traffic PartitionCost::traffic(TensorId tensor, const Meetings& here, const Depth& depth) const {
  const Tensor& t = profile_->model.tensors[at(tensor)];
  const Meetings& all = everywhere_[at(tensor)];
  const bool read_here = here.forward_reads + here.backward_reads > 0;
  const bool arrives = here.made == 0 && read_here;
  const bool leaves =
      here.made > 0 && (here.forward_reads < all.forward_reads || here.backward_reads < all.backward_reads);
  const int summands_elsewhere = here.gradient_wanted > 0 ? all.gradient_summands - here.gradient_summands : 0;
  const bool gradient_leaves = here.gradient_wanted == 0 && here.gradient_summands > 0;

  const bool forward_here = here.made + here.forward_reads > 0;
  const int least = here.backward_reads > 0 ? depth.own : here.made > 0 || read_here ? 1 : 0;
  int slots = least;
  if (arrives && (t.producer != kDataset || !forward_here)) slots = depth.arriving;
  if (leaves) slots = std::max(slots, depth.leaving);
  // Each later worker with readers sends its own partial sum.
  slots += std::min(summands_elsewhere, depth.later_workers) * depth.gradient;
  if (gradient_leaves) slots += depth.leaving;

  Traffic traffic;
  if (arrives && t.producer != kDataset) traffic.received += t.bytes;
  if (summands_elsewhere > 0) traffic.received += t.bytes;
  if (leaves) traffic.sent += t.bytes;
  if (gradient_leaves) traffic.sent += t.bytes;
  traffic.buffers = slots * t.bytes;
  traffic.least_buffers = least * t.bytes;
  return traffic;
}

double PartitionCost::bottleneck_s(const ShareLoad& load, Rank rank) const {
  const RankSpec& spec = cluster_->ranks[at(rank)];
  if (load.memory_bytes > spec.memory_bytes) return std::numeric_limits<double>::infinity();
  return std::max(load.compute_s / spec.speed, link_s(std::max(load.received_bytes, load.sent_bytes)));
}

ShareLoad PartitionCost::load(const Share& share, const ShareSeat& seat) const {
  ShareTally tally(*this);
  tally.restart(seat, share.forward_begin, share.backward_begin);
  while (tally.share().forward_end < share.forward_end) tally.grow_forward();
  while (tally.share().backward_end < share.backward_end) tally.grow_backward();
  return tally.load();
}

ShareTally::ShareTally(const PartitionCost& cost) : cost_(&cost), here_(cost.everywhere_.size()) {}

void ShareTally::restart(const ShareSeat& seat, LayerId forward_begin, LayerId backward_begin) {
  while (share_.forward_begin < share_.forward_end) shrink_forward();
  while (share_.backward_begin < share_.backward_end) shrink_backward();
  share_ = {forward_begin, forward_begin, backward_begin, backward_begin};
  depth_ = cost_->depth(seat);
}

void ShareTally::grow_forward() { move(cost_->forward_touches_[at(share_.forward_end++)], +1); }
void ShareTally::grow_backward() { move(cost_->backward_touches_[at(share_.backward_end++)], +1); }
void ShareTally::shrink_forward() { move(cost_->forward_touches_[at(--share_.forward_end)], -1); }
void ShareTally::shrink_backward() { move(cost_->backward_touches_[at(--share_.backward_end)], -1); }

void ShareTally::drop_first_backward() { move(cost_->backward_touches_[at(share_.backward_begin++)], -1); }

void ShareTally::move(const std::vector<PartitionCost::Touch>& touches, int sign) {
  const auto count = [&](TensorId tensor, int direction) {
    const auto traffic = cost_->traffic(tensor, here_[at(tensor)], depth_);
    total_.received += direction * traffic.received;
    total_.sent += direction * traffic.sent;
    total_.buffers += direction * traffic.buffers;
    total_.least_buffers += direction * traffic.least_buffers;
  };
  for (const PartitionCost::Touch& touch : touches) {
    count(touch.tensor, -1);
    here_[at(touch.tensor)].add(touch.meetings, sign);
    count(touch.tensor, +1);
  }
}

ShareLoad ShareTally::load() const {
  const Share& s = share_;
  const LayerId both_begin = std::max(s.forward_begin, s.backward_begin);
  const LayerId both_end = std::max(both_begin, std::min(s.forward_end, s.backward_end));
  const auto between = [](const auto& prefix, LayerId begin, LayerId end) {
    return prefix[at(end)] - prefix[at(begin)];
  };
  const auto in_forward = [&](const auto& prefix) { return between(prefix, s.forward_begin, s.forward_end); };
  const auto in_backward = [&](const auto& prefix) { return between(prefix, s.backward_begin, s.backward_end); };
  const auto in_both = [&](const auto& prefix) { return between(prefix, both_begin, both_end); };
  const auto in_any = [&](const auto& prefix) { return in_forward(prefix) + in_backward(prefix) - in_both(prefix); };

  const std::vector<std::int64_t>& parameters = cost_->parameters_;
  const double steps = 1.0 / cost_->microbatches_;
  ShareLoad load;
  load.compute_s = in_forward(cost_->forward_s_) + in_backward(cost_->backward_s_);
  load.received_bytes =
      static_cast<double>(total_.received) + steps * static_cast<double>(in_forward(parameters) - in_both(parameters));
  load.sent_bytes =
      static_cast<double>(total_.sent) + steps * static_cast<double>(in_backward(parameters) - in_both(parameters));
  const std::int64_t fixed = in_any(parameters) + in_any(cost_->packed_) + 2 * in_backward(parameters) +
                             std::max(cost_->workspace_.of(s.forward_begin, s.forward_end),
                                      cost_->workspace_.of(s.backward_begin, s.backward_end)) +
                             2 * cost_->gradients_.of(s.backward_begin, s.backward_end);
  load.memory_bytes = fixed + total_.buffers;
  load.least_memory_bytes = fixed + total_.least_buffers;
  return load;
}

}  // namespace sluice
