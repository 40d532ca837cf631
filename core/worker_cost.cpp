#include "core/worker_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/asynchronous.h"
#include "core/cost_model.h"
#include "core/division.h"
#include "core/schedule.h"

namespace sluice {
namespace {

constexpr std::uint8_t kForward = 1, kBackwardInput = 2, kBackwardWeight = 4, kRecompute = 8;

std::uint8_t bits_of(Work work) {
  switch (work) {
    case Work::forward:
      return kForward;
    case Work::backward:
      return kBackwardInput | kBackwardWeight;
    case Work::backward_input:
      return kBackwardInput;
    case Work::backward_weight:
      return kBackwardWeight;
    case Work::recompute:
      return kRecompute;
  }
  return 0;
}

std::vector<std::int64_t> workspace_bytes(const Profile& profile) {
  std::vector<std::int64_t> bytes;
  for (const LayerCost& cost : profile.costs) bytes.push_back(cost.workspace_bytes);
  return bytes;
}

std::vector<std::int64_t> tensor_bytes(const Model& model) {
  std::vector<std::int64_t> bytes;
  for (const Tensor& tensor : model.tensors) bytes.push_back(tensor.bytes);
  return bytes;
}

}  // namespace

void WorkerCost::Meetings::add(const Meetings& other, int sign) {
  made += sign * other.made;
  made_again += sign * other.made_again;
  read += sign * other.read;
  read_again += sign * other.read_again;
  stash_read += sign * other.stash_read;
  stash_late += sign * other.stash_late;
  wanted += sign * other.wanted;
  wanted_late += sign * other.wanted_late;
  summands += sign * other.summands;
}

void WorkerLoad::Holdings::add(const Holdings& other) {
  always += other.always;
  stashed += other.stashed;
  stashed_leaving += other.stashed_leaving;
  arriving += other.arriving;
  leaving += other.leaving;
  gradients += other.gradients;
  partial_gradients += other.partial_gradients;
  delayed += other.delayed;
  handed += other.handed;
  weights += other.weights;
  displaced += other.displaced;
}

WorkerCost::Sizes::Sizes(const std::vector<std::int64_t>& sizes) : distinct(sizes) {
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const std::int64_t size : sizes)
    number.push_back(static_cast<int>(std::lower_bound(distinct.begin(), distinct.end(), size) - distinct.begin()));
}

WorkerCost::WorkerCost(const Profile& profile, const Cluster& cluster, const Pricing& pricing)
    : profile_(&profile),
      cluster_(&cluster),
      pricing_(pricing),
      halves_backward_(schedule_named(pricing.schedule).halves_backward),
      delays_weights_(schedule_named(pricing.schedule).delays_weights),
      per_update_(microbatches_per_update(pricing)),
      asynchronous_(asynchronous(pricing.schedule)),
      least_in_flight_(microbatches_in_flight(pricing, 1)),
      most_in_flight_(microbatches_in_flight(pricing, std::numeric_limits<int>::max())),
      early_receives_(1 + Plan{}.receive_ahead),
      workspaces_(workspace_bytes(profile)),
      gradients_(tensor_bytes(profile.model)) {
  const int nodes = occupied_nodes(cluster);
  const bool inside = nodes == 1, between = nodes == std::ssize(cluster.ranks);
  mixed_links_ = !linked_alike(cluster);
  bandwidth_bytes_per_s_ = 0;
  if (!between || inside) bandwidth_bytes_per_s_ += cluster.intra_node.bandwidth_bytes_per_s;
  if (!inside) bandwidth_bytes_per_s_ += cluster.inter_node.bandwidth_bytes_per_s;
  collect_touches();
  count_ticks();
}

void WorkerCost::collect_touches() {
  const Model& model = profile_->model;
  const auto made = tensors_by_producer(model);
  everywhere_.resize(model.tensors.size());
  for (const Tensor& tensor : model.tensors)
    if (tensor.producer == kDataset) dataset_bytes_[static_cast<std::size_t>(tensor.kind)] += tensor.bytes;
  std::vector<Touch> list;
  const auto touch = [&](TensorId tensor) -> Meetings& {
    for (Touch& known : list)
      if (known.tensor == tensor) return known.meetings;
    return list.emplace_back(Touch{tensor, {}}).meetings;
  };
  const auto collect = [&](LayerWork work) {
    const LayerNeeds& needs = model.needs[at(work.layer)];
    const bool apart = work.work == Work::backward_weight || (halves_backward_ && work.work == Work::backward);
    const std::uint8_t bits = bits_of(work.work);
    for (const TensorId t : made[at(work.layer)]) {
      if (bits & kForward) touch(t).made = 1;
      if (bits & kRecompute) touch(t).made_again = 1;
      for (const std::uint8_t backward : {kBackwardInput, kBackwardWeight})
        if ((bits & backward) && has_gradient(model, t)) touch(t).wanted += 1;
      if (apart && has_gradient(model, t)) touch(t).wanted_late = 1;
    }
    for (const TensorId t : needs.forward) {
      if (bits & kForward) touch(t).read = 1;
      if (bits & kRecompute) touch(t).read_again = 1;
      if ((bits & kBackwardInput) && has_gradient(model, t)) touch(t).summands = 1;
    }
    if (bits & kBackwardInput)
      for (const TensorId t : needs.backward_input) touch(t).stash_read += 1;
    if (bits & kBackwardWeight)
      for (const TensorId t : needs.backward_weight) {
        touch(t).stash_read += 1;
        if (apart) touch(t).stash_late = 1;
      }
  };
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer)
    for (int work = 0; work < 5; ++work) {
      collect({layer, static_cast<Work>(work)});
      first_touch_.push_back(touches_.size());
      touches_.insert(touches_.end(), list.begin(), list.end());
      if (static_cast<Work>(work) == Work::forward || static_cast<Work>(work) == Work::backward)
        for (const Touch& t : list) everywhere_[at(t.tensor)].add(t.meetings, +1);
      list.clear();
    }
  first_touch_.push_back(touches_.size());
}

void WorkerCost::count_ticks() {
  double most_s = 0;  // of any worker, all forwards done twice
  for (const LayerCost& cost : profile_->costs)
    most_s += 2 * cost.forward_s + cost.backward_input_s + cost.backward_weight_s + cost.update_s;
  if (most_s > 0) tick_s_ = std::ldexp(1, std::ilogb(most_s) - 60);
  const auto ticks = [&](double seconds) { return static_cast<std::int64_t>(std::llround(seconds / tick_s_)); };
  for (const LayerCost& cost : profile_->costs)
    ticks_.push_back(
        {ticks(cost.forward_s), ticks(cost.backward_input_s), ticks(cost.backward_weight_s), ticks(cost.update_s)});
}

double WorkerCost::busiest_share(const Seat& seat) const {
  return static_cast<double>(microbatches_of(0, seat.replicas, pricing_.microbatches)) / pricing_.microbatches;
}

double WorkerCost::compute_s(const WorkerLoad& load, const Seat& seat, double speed) const {
  return (busiest_share(seat) * load.compute_s + load.update_s / per_update_) / speed;
}

double WorkerCost::link_s(const WorkerLoad& load, const Seat& seat) const {
  if (pricing_.compute_only) return 0;
  const double share = busiest_share(seat);
  // On mixed links each replica may serve other nodes, so that none sends all weights.
  const double weights_sent = mixed_links_ && seat.replicas > 1 ? 0 : load.weights_sent_bytes;
  const double all_reduced = ring_share(seat.replicas) * load.updated_bytes;
  const double received = share * load.received_bytes + load.weights_received_bytes / per_update_;
  const double sent = share * load.sent_bytes + weights_sent / per_update_;
  return (std::max(received, sent) + all_reduced / per_update_) / bandwidth_bytes_per_s_;
}

/// Of all versions but one.
double WorkerCost::version_bytes(const WorkerLoad::Holdings& held, const Seat& seat) const {
  const double own = versions_of_weights(pricing_, seat.ranks_from_here) - 1;
  const double most = versions_of_weights(pricing_, seat.ranks) - 1;
  return own * static_cast<double>(held.weights - held.displaced) + most * static_cast<double>(held.displaced);
}

std::int64_t WorkerCost::memory_bytes(const WorkerLoad& load, const Seat& seat) const {
  const int microbatches =
      asynchronous_ ? std::numeric_limits<int>::max() : microbatches_of(0, seat.replicas, pricing_.microbatches);
  const auto in_flight = [&](int ranks) {
    return divided_up(std::clamp(ranks, least_in_flight_, most_in_flight_), seat.replicas);
  };
  const int own = in_flight(seat.ranks_from_here);
  // Whoever sends has no more micro-batches in flight than the first worker.
  const int arriving = std::min(microbatches, in_flight(seat.ranks) + early_receives_);
  const int gradient = std::min(microbatches, own + early_receives_);
  const int leaving = std::min(microbatches, 2);
  const int delayed = in_flight(seat.ranks);
  // Delayed by what the first worker has in flight beyond this one; otherwise only once no forward is left to run.
  const int later = 1 + divided_up(seat.ranks - seat.ranks_from_here, seat.replicas);
  const int handed = std::min(delays_weights_ ? microbatches : own, later);
  const int later_workers = seat.ranks_from_here - seat.replicas;
  // As doubles: exact below 2^53 bytes, and no overflow above.
  const auto times = [](int count, std::int64_t bytes) { return count * static_cast<double>(bytes); };
  const WorkerLoad::Holdings& held = load.holdings;
  const double bytes = times(1, held.always) + version_bytes(held, seat) + times(own, held.stashed) +
                       times(std::max(own, leaving), held.stashed_leaving) + times(arriving, held.arriving) +
                       times(leaving, held.leaving) + times(delayed, held.delayed) +
                       times(std::max(handed, leaving), held.handed) +
                       gradient * std::min(times(later_workers, held.gradients), times(1, held.partial_gradients));
  constexpr double kMost = 9e18;
  return static_cast<std::int64_t>(std::min(bytes, kMost));
}

double WorkerCost::price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  if (rank.memory_bytes != kUnlimitedMemory && memory_bytes(load, seat) > rank.memory_bytes) return kInfinity;
  return std::max(compute_s(load, seat, rank.speed), link_s(load, seat));
}

void WorkerTally::Largest::count(int number, int sign) {
  const std::size_t n = at(number);
  counts_[n] += sign;
  const std::uint64_t bit = std::uint64_t{1} << (n % 64);
  words_[n / 64] = counts_[n] > 0 ? words_[n / 64] | bit : words_[n / 64] & ~bit;
}

int WorkerTally::Largest::number() const {
  for (std::size_t w = words_.size(); w > 0; --w)
    if (words_[w - 1] != 0) return static_cast<int>(64 * w) - 1 - std::countl_zero(words_[w - 1]);
  return kNone;
}

WorkerTally::WorkerTally(const WorkerCost& cost)
    : cost_(&cost),
      works_of_(cost.profile_->model.layers.size()),
      here_(cost.profile_->model.tensors.size()),
      workspace_(cost.workspaces_.distinct.size()),
      scratch_(cost.gradients_.distinct.size()) {}

void WorkerTally::move(LayerWork work, int sign) {
  works_ += sign;
  if (work.work == Work::forward) forwards_ += sign;
  count_times(work, sign);
  count_layer(work.layer, -1);
  works_of_[at(work.layer)] ^= bits_of(work.work);
  count_layer(work.layer, +1);
  for (const WorkerCost::Touch& touch : cost_->touches(work)) {
    WorkerCost::Meetings& here = here_[at(touch.tensor)];
    count_tensor(touch.tensor, here, -1, total_);
    count_shared(touch.tensor, -1);
    here.add(touch.meetings, sign);
    count_tensor(touch.tensor, here, +1, total_);
    count_shared(touch.tensor, +1);
  }
}

bool WorkerTally::runs(LayerWork work) const {
  const std::uint8_t bits = bits_of(work.work);
  return (works_of_[at(work.layer)] & bits) == bits;
}

void WorkerTally::count_times(LayerWork work, int sign) {
  const WorkerCost::LayerTicks& ticks = cost_->ticks_[at(work.layer)];
  const std::uint8_t bits = bits_of(work.work);
  if (bits & (kForward | kRecompute)) compute_ticks_ += sign * ticks.forward;
  if (bits & kBackwardInput) compute_ticks_ += sign * ticks.backward_input;
  if (bits & kBackwardWeight) {
    compute_ticks_ += sign * ticks.backward_weight;
    update_ticks_ += sign * ticks.update;
  }
}

void WorkerTally::count_layer(LayerId layer, int sign) {
  const std::uint8_t works = works_of_[at(layer)];
  if (works == 0) return;
  const LayerCost& cost = cost_->profile_->costs[at(layer)];
  const std::int64_t weights = sign * cost.parameter_bytes;
  const std::int64_t version = weights + sign * cost.packed_bytes;
  constexpr std::uint8_t kWhole = kForward | kBackwardInput | kBackwardWeight;
  total_.holdings.always += version;
  total_.holdings.weights += version;
  if ((works & kWhole) != kWhole) total_.holdings.displaced += version;
  if (works & kBackwardWeight) {
    total_.updated += weights;
    total_.holdings.always += 2 * weights;  // gradients and momentum
    if ((works & (kForward | kBackwardInput)) != (kForward | kBackwardInput)) total_.weights_sent += weights;
  } else {
    total_.weights_received += weights;
  }
  if ((works & kBackwardWeight) && !(works & kBackwardInput)) strays_ += sign;
  workspace_.count(cost_->workspaces_.number[at(layer)], sign);
}

/// What tensors use together: the buffers of a backward, and a load, which brings all that the dataset has of a kind.
void WorkerTally::count_shared(TensorId tensor, int sign) {
  const WorkerCost::Meetings& here = here_[at(tensor)];
  if (here.summands > 0 && here.wanted > 0) scratch_.count(cost_->gradients_.number[at(tensor)], sign);
  const Tensor& t = cost_->profile_->model.tensors[at(tensor)];
  if (t.producer != kDataset || here.read + here.read_again + here.stash_read == 0) return;
  DatasetTensors& read = read_[static_cast<std::size_t>(t.kind)];
  read.count += sign;
  read.bytes += sign * t.bytes;
}

void WorkerTally::count_tensor(TensorId tensor, const WorkerCost::Meetings& here, int sign, Bytes& total) const {
  const WorkerCost::Meetings& all = cost_->everywhere_[at(tensor)];
  const Tensor& t = cost_->profile_->model.tensors[at(tensor)];
  const std::int64_t bytes = sign * t.bytes;
  WorkerLoad::Holdings& held = total.holdings;

  const bool made = here.made > 0, made_again = here.made_again > 0;
  const bool stash_read = here.stash_read + here.read_again > 0;
  const bool arrives = !made && t.producer != kDataset && (here.read > 0 || (stash_read && !made_again));
  const bool leaves_for_forwards = made && here.read < all.read;
  const bool leaves = leaves_for_forwards || (made && here.stash_read < all.stash_read);
  if (arrives) total.received += bytes;
  if (arrives && here.read > 0) total.least_received += bytes;
  if (leaves) total.sent += bytes;
  if (leaves_for_forwards) total.least_sent += bytes;

  // A reader whose backward is elsewhere may be made again there, which nobody knows here.
  const bool may_leave = leaves || (made && here.summands < all.summands);
  WorkerLoad::Holdings& kept = here.stash_late > 0 ? total.late : held;
  if (made_again) kept.always += bytes;
  if (arrives)
    held.arriving += bytes;
  else if (stash_read && !made_again)
    (may_leave ? kept.stashed_leaving : kept.stashed) += bytes;
  else if (may_leave)  // made again: beside the second copy the send of the first, never of two
    (made_again ? held.always : held.leaving) += bytes;
  else if ((made || here.read > 0) && !made_again)
    held.always += bytes;

  const int summands_elsewhere = here.wanted > 0 ? all.summands - here.summands : 0;
  const bool gradient_leaves = here.summands > 0 && here.wanted < all.wanted;
  if (summands_elsewhere > 0) {
    total.received += bytes;
    total.least_received += bytes;
  }
  if (gradient_leaves) {
    total.sent += bytes;
    total.least_sent += bytes;
  }
  WorkerLoad::Holdings& kept_gradient = here.wanted_late > 0 ? total.late : held;
  if (summands_elsewhere > 0) kept_gradient.gradients += bytes;
  kept_gradient.partial_gradients += bytes * summands_elsewhere;
  if (gradient_leaves)
    kept_gradient.leaving += bytes;
  else if (here.wanted_late > 0 && here.summands > 0)
    kept_gradient.always += bytes;
}

WorkerLoad WorkerTally::load_of(const Bytes& bytes) const {
  WorkerLoad load;
  load.received_bytes = static_cast<double>(bytes.received);
  load.sent_bytes = static_cast<double>(bytes.sent);
  load.least_received_bytes = static_cast<double>(bytes.least_received);
  load.least_sent_bytes = static_cast<double>(bytes.least_sent);
  load.weights_received_bytes = static_cast<double>(bytes.weights_received);
  load.weights_sent_bytes = static_cast<double>(bytes.weights_sent);
  load.updated_bytes = static_cast<double>(bytes.updated);
  load.holdings = bytes.holdings;
  WorkerLoad::Holdings& held = load.holdings;
  if (cost_->delays_weights_) {
    held.delayed += bytes.late.stashed + bytes.late.stashed_leaving;
    held.handed += bytes.late.always + bytes.late.leaving;
    held.arriving += bytes.late.partial_gradients;
  } else if (cost_->halves_backward_ && strays_ == 0) {
    WorkerLoad::Holdings late = bytes.late;
    held.handed += std::exchange(late.always, 0) + std::exchange(late.leaving, 0);
    held.add(late);
  } else if (strays_ > 0) {
    held.arriving += bytes.late.always + bytes.late.stashed + bytes.late.stashed_leaving + bytes.late.leaving +
                     bytes.late.partial_gradients;
  } else {
    held.add(bytes.late);
  }
  if (forwards_ == 0) {  // nothing here holds up those that send: they are as far ahead as their own forwards
    held.arriving += held.partial_gradients;
    held.gradients = held.partial_gradients = 0;
  }
  return load;
}

bool WorkerTally::reads_after_forward(LayerId layer) const {
  const auto touches = cost_->touches({layer, Work::recompute});
  return std::any_of(touches.begin(), touches.end(), [&](const WorkerCost::Touch& touch) {
    const WorkerCost::Meetings& here = here_[at(touch.tensor)];
    return touch.meetings.made_again > 0 && here.stash_read + here.read_again > 0;
  });
}

WorkerLoad WorkerTally::load_of_tensors(LayerId layer, bool made_again) const {
  Bytes total;
  for (const WorkerCost::Touch& touch : cost_->touches({layer, Work::recompute})) {
    if (touch.meetings.made_again == 0) continue;
    WorkerCost::Meetings here = here_[at(touch.tensor)];
    here.made_again = made_again ? 1 : 0;
    here.stash_read = std::max(here.stash_read, 1);
    count_tensor(touch.tensor, here, +1, total);
  }
  return load_of(total);
}

WorkerLoad WorkerTally::load() const {
  const auto largest = [](const Largest& present, const WorkerCost::Sizes& sizes) {
    const int number = present.number();
    return number == kNone ? 0 : sizes.distinct[at(number)];
  };
  const auto seconds = [&](std::int64_t ticks) { return static_cast<double>(ticks) * cost_->tick_s_; };
  WorkerLoad load = load_of(total_);
  load.compute_s = seconds(compute_ticks_);
  load.update_s = seconds(update_ticks_);
  // Gradients go from layer to layer of a backward through two buffers in turn.
  load.holdings.always += largest(workspace_, cost_->workspaces_) + 2 * largest(scratch_, cost_->gradients_);
  for (std::size_t kind = 0; kind < read_.size(); ++kind)
    if (read_[kind].count > 0) load.holdings.always += cost_->dataset_bytes_[kind] - read_[kind].bytes;
  return load;
}

}  // namespace sluice
