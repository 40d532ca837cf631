#include "optimizer/solver/objective.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "core/index.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One figure of each load.
template <typename Figure>
std::vector<double> column(const std::vector<ShareLoad>& loads, const Figure& figure) {
  std::vector<double> figures;
  figures.reserve(loads.size());
  for (const ShareLoad& load : loads) figures.push_back(figure(load));
  return figures;
}

}  // namespace

BottleneckObjective::BottleneckObjective(const PartitionCost& cost, int workers, Cuts cuts) : Objective(cost, workers) {
  std::vector<double> speeds;
  speed_.resize(at(ranks()) + 1, {0});
  for (Rank rank = ranks() - 1; rank >= 0; --rank) {
    const double own = cost.cluster().ranks[at(rank)].speed;
    speeds.insert(std::upper_bound(speeds.begin(), speeds.end(), own, std::greater<>()), own);
    if (std::ssize(speeds) > workers) speeds.pop_back();  // no more ever work at once
    for (const double speed : speeds) speed_[at(rank)].push_back(speed_[at(rank)].back() + speed);
  }
  for (const RankSpec& rank : cost.cluster().ranks)
    most_memory_ = std::max(most_memory_, static_cast<double>(rank.memory_bytes));
  if (cuts == Cuts::independent) tabulate_bounds();
}

void BottleneckObjective::tabulate_bounds() {
  const auto memory = [](const ShareLoad& load) { return static_cast<double>(load.memory_bytes); };
  if (cost().link_s(1) > 0)
    crossing_s_ = column(loads_of_prefixes(0), [&](const ShareLoad& load) {
      return cost().link_s(std::max(load.received_bytes, load.sent_bytes));
    });
  if (!memory_may_bind()) return;
  prefix_memory_.emplace_back((at(layers()) + 1) * (at(layers()) + 1));
  for (int used = 1; used <= workers(); ++used) prefix_memory_.push_back(column(loads_of_prefixes(used - 1), memory));
  suffix_memory_ = column(loads_of_suffixes(workers() - 1), memory);
}

/// Not where every rank could hold all layers, with the deepest stash.
bool BottleneckObjective::memory_may_bind() const {
  const ShareLoad all = cost().load({0, layers(), 0, layers()}, {.rank = 0, .position = 0, .workers = workers()});
  const std::vector<RankSpec>& ranks = cost().cluster().ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const RankSpec& rank) { return all.memory_bytes > rank.memory_bytes; });
}

/// The load of forward [0, p) and backward [0, q) as if one worker at `position` had them, for all p and q.
std::vector<ShareLoad> BottleneckObjective::loads_of_prefixes(int position) const {
  std::vector<ShareLoad> loads;
  ShareTally tally(cost());
  for (LayerId p = 0; p <= layers(); ++p) {
    tally.restart({0, position, workers()}, 0, 0);
    while (tally.share().forward_end < p) tally.grow_forward();
    loads.push_back(tally.load());
    while (tally.share().backward_end < layers()) {
      tally.grow_backward();
      loads.push_back(tally.load());
    }
  }
  return loads;
}

/// Likewise for forward [p, L) and backward [q, L).
std::vector<ShareLoad> BottleneckObjective::loads_of_suffixes(int position) const {
  std::vector<ShareLoad> loads;
  ShareTally tally(cost());
  for (LayerId p = 0; p <= layers(); ++p) {
    tally.restart({0, position, workers()}, p, 0);
    while (tally.share().forward_end < layers()) tally.grow_forward();
    while (tally.share().backward_end < layers()) tally.grow_backward();
    loads.push_back(tally.load());
    while (tally.share().backward_begin < layers()) {
      tally.drop_first_backward();
      loads.push_back(tally.load());
    }
  }
  return loads;
}

double BottleneckObjective::price(const ShareLoad& load, Rank rank) const { return cost().bottleneck_s(load, rank); }

double BottleneckObjective::floor(const ShareLoad& load, Rank rank) const {
  // Compute only grows with the share; traffic may shrink.
  const RankSpec& spec = cost().cluster().ranks[at(rank)];
  return load.least_memory_bytes > spec.memory_bytes ? kInfinity : load.compute_s / spec.speed;
}

double BottleneckObjective::lower_bound() const {
  double largest = 0;
  for (LayerId layer = 0; layer < layers(); ++layer) {
    largest = std::max(largest, cost().forward_prefix_s(layer + 1) - cost().forward_prefix_s(layer));
    largest = std::max(largest, cost().backward_prefix_s(layer + 1) - cost().backward_prefix_s(layer));
  }
  const std::vector<double>& speeds = speed_[0];
  const double total = cost().forward_prefix_s(layers()) + cost().backward_prefix_s(layers());
  return std::max(largest / speeds[1], total / speeds[at(workers())]);
}

double BottleneckObjective::remaining_s(const Progress& progress) const {
  return cost().forward_prefix_s(layers()) - cost().forward_prefix_s(progress.forward_done) +
         cost().backward_prefix_s(layers()) - cost().backward_prefix_s(progress.backward_done);
}

LayerId BottleneckObjective::least_backward_done(const Progress& progress, double limit) const {
  const std::vector<double>& speeds = speed_[at(progress.next_rank)];
  const double affordable = limit * speeds[at(workers() - progress.used)] * kRounding;
  Progress trial = progress;
  LayerId low = 0, high = layers() + 1;
  while (low < high) {
    trial.backward_done = (low + high) / 2;
    if (remaining_s(trial) <= affordable)
      high = trial.backward_done;
    else
      low = trial.backward_done + 1;
  }
  return low;
}

bool BottleneckObjective::hopeless(const Progress& progress, double limit) const {
  // The workers so far, taken together as one worker, move and hold no more than
  // they do apart: a union counts a tensor that crosses its border once, one that
  // it holds once, with the stash of the position that keeps least. Likewise the
  // workers to come. So what crosses between the two passes over the links of
  // either side, and either side's memory must fit its ranks.
  const int used = progress.used, left = workers() - used;
  const std::size_t state = at(progress.forward_done * (layers() + 1) + progress.backward_done);
  if (!crossing_s_.empty() && crossing_s_[state] > limit * std::min(used, left) * kRounding) return true;
  return !suffix_memory_.empty() &&
         (prefix_memory_[at(used)][state] > used * most_memory_ || suffix_memory_[state] > left * most_memory_);
}

double MemoryObjective::price(const ShareLoad& load, Rank rank) const { return share_of_rank(load.memory_bytes, rank); }

double MemoryObjective::floor(const ShareLoad& load, Rank rank) const {
  return share_of_rank(load.least_memory_bytes, rank);
}

double MemoryObjective::lower_bound() const {
  // Together as one worker, in the place that keeps the least stash, they hold no more than apart (see hopeless above).
  const ShareSeat least{.rank = 0, .position = workers() - 1, .workers = workers()};
  const std::int64_t all = cost().load({0, layers(), 0, layers()}, least).memory_bytes;
  std::int64_t most_memory = 0;
  for (const RankSpec& rank : cost().cluster().ranks) most_memory = std::max(most_memory, rank.memory_bytes);
  return static_cast<double>(all) / static_cast<double>(most_memory) / workers();
}

double MemoryObjective::share_of_rank(std::int64_t bytes, Rank rank) const {
  return static_cast<double>(bytes) / static_cast<double>(cost().cluster().ranks[at(rank)].memory_bytes);
}

}  // namespace sluice
