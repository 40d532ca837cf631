#include "optimizer/solver/msr_search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/index.h"
#include "core/topological_order.h"
#include "optimizer/solver/ideals.h"
#include "optimizer/solver/rank_classes.h"
#include "optimizer/solver/search.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostIdeals = 4'000'000;
constexpr std::int64_t kMostMemory = std::int64_t{3} << 30;  ///< of ideals and cells [B]
constexpr std::size_t kUnreached = std::numeric_limits<std::size_t>::max();

/// Partitions below a limit. An ideal here is what a crew of ranks leaves to the devices after it.
class Pass {
 public:
  Pass(const MsrGraph& graph, const WorkGraph& order, const RankClasses& ranks, Deadline deadline)
      : graph_(graph),
        ranks_(ranks),
        deadline_(deadline),
        ratio_(msr_host_ratio(graph)),
        backwards_{order.units, reversed(order.successors)},
        lattice_(backwards_, kMostIdeals),
        before_(graph.nets.size()),
        inside_(graph.nets.size()) {
    while (lattice_.units_in(nothing_) > 0) nothing_ = lattice_.below(nothing_).front().below;
    for (int c = 0; c < ranks.classes(); ++c) one_of_.push_back(crew_of_one(c));
  }

  /// The best one, if any is below `limit` and the pass is not given up.
  [[nodiscard]] std::optional<MsrPartition> below(double limit);
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  [[nodiscard]] bool given_up() const { return timed_out_ || too_large_; }

 private:
  /// A device at work.
  struct Load {
    MsrWeight weight;
    double cut_s = 0;     ///< transfers of tensors that have units here and elsewhere
    double shared_s = 0;  ///< of those among them that earlier devices have: more units here do not save them
    double open_s = 0;    ///< of tensors that have units here or before, and after
  };
  /// The best way for a crew to leave an ideal.
  struct Cell {
    double price = kInfinity;
    int left_before = kNone;  ///< the ideal that its last device began with
    int last_class = kNone;   ///< of its last device
  };

  [[nodiscard]] int crew_of_one(int of_class) const;
  [[nodiscard]] bool is_too_large() const;
  [[nodiscard]] int left_of(int crew) const { return ranks_.ranks_in(ranks_.all()) - ranks_.ranks_in(crew); }
  void set_capacities();
  [[nodiscard]] Cell& cell(int ideal, int crew) { return cells_[first_cell_[at(ideal)] + at(crew)]; }
  void reach(int ideal);
  void start_from(int ideal);
  void weigh(int ideal);
  void extend(int from, int ideal, const Load& load);
  [[nodiscard]] Load with(const Load& load, int unit);
  void without(int unit);
  [[nodiscard]] bool can_grow(const Load& load) const;
  void offer(int from, int ideal, const Load& load);
  [[nodiscard]] bool can_finish(int crew, const Load& load) const;
  [[nodiscard]] std::optional<MsrPartition> best();
  [[nodiscard]] std::vector<int> units_between(int ideal, int smaller) const;

  const MsrGraph& graph_;
  const RankClasses& ranks_;
  Deadline deadline_;
  double ratio_;
  WorkGraph backwards_;  ///< its ideals hold all that follows on their units
  IdealLattice lattice_;
  int nothing_ = IdealLattice::kFull;  ///< the empty ideal
  std::vector<int> one_of_;            ///< by class: the crew of one
  double limit_ = 0;
  bool timed_out_ = false, too_large_ = false;
  std::vector<double> capacity_;         ///< by crew: accelerator seconds that the ranks outside it can take
  std::vector<double> transfer_weight_;  ///< by crew: how much of them a second of open tensors takes, at least
  std::vector<std::size_t> first_cell_;  ///< by ideal: index into cells_, one a crew; kUnreached
  std::vector<Cell> cells_;
  std::vector<std::vector<int>> reached_;  ///< ideals by number of units
  std::vector<int> seen_;                  ///< by ideal: the last one from which a device came down to it
  // Of the ideal from which devices start:
  std::vector<int> crews_;            ///< that leave it
  Load whole_;                        ///< all its units on one device
  std::vector<int> before_, inside_;  ///< by net: units on earlier devices, units on the device at work
};

std::optional<MsrPartition> Pass::below(double limit) {
  limit_ = limit;
  set_capacities();
  first_cell_.clear();
  cells_.clear();
  seen_.clear();
  reached_.assign(graph_.weights.size() + 1, {});
  reach(IdealLattice::kFull);
  cell(IdealLattice::kFull, 0).price = 0;
  for (std::size_t units = graph_.weights.size(); units > 0; --units)
    for (const int ideal : reached_[units]) {
      timed_out_ = std::chrono::steady_clock::now() > deadline_;
      if (given_up()) return std::nullopt;
      start_from(ideal);
    }
  return best();
}

int Pass::crew_of_one(int of_class) const {
  for (int crew = 0;; ++crew)
    if (ranks_.ranks_in(crew) == 1 && ranks_.ranks_in(crew, of_class) == 1) return crew;
}

/// Before the lattice comes to its own limit.
bool Pass::is_too_large() const {
  const std::int64_t units = std::ssize(graph_.weights), ideals = lattice_.count() + units;
  const auto cells = static_cast<std::int64_t>(cells_.capacity() * sizeof(Cell));
  return ideals > kMostIdeals || ideals * (units / 8 + 100) + cells > kMostMemory;
}

void Pass::set_capacities() {
  capacity_.assign(at(ranks_.all()) + 1, 0);
  transfer_weight_.assign(capacity_.size(), kInfinity);
  for (int crew = 0; crew < ranks_.all(); ++crew)
    for (int c = 0; c < ranks_.classes(); ++c) {
      const int left = ranks_.ranks_in(ranks_.all(), c) - ranks_.ranks_in(crew, c);
      const RankSpec& spec = ranks_.spec(c);
      if (left == 0) continue;
      capacity_[at(crew)] += left * limit_ * spec.speed * (spec.host ? ratio_ : 1);
      transfer_weight_[at(crew)] = std::min(transfer_weight_[at(crew)], spec.host ? 0 : spec.speed);
    }
}

void Pass::reach(int ideal) {
  if (first_cell_.size() <= at(ideal)) first_cell_.resize(at(lattice_.count()), kUnreached);
  if (first_cell_[at(ideal)] != kUnreached) return;
  first_cell_[at(ideal)] = cells_.size();
  cells_.resize(cells_.size() + at(ranks_.all()) + 1);
  reached_[at(lattice_.units_in(ideal))].push_back(ideal);
}

void Pass::start_from(int ideal) {
  crews_.clear();
  int most_left = 0;
  for (int crew = 0; crew <= ranks_.all(); ++crew) {
    if (cell(ideal, crew).price >= limit_) continue;
    crews_.push_back(crew);
    most_left = std::max(most_left, left_of(crew));
  }
  weigh(ideal);
  if (most_left > 1)
    extend(ideal, ideal, {.weight = {}, .open_s = whole_.open_s});
  else
    offer(ideal, nothing_, whole_);
}

void Pass::weigh(int ideal) {
  whole_ = {};
  std::fill(before_.begin(), before_.end(), 0);
  for (int unit = 0; unit < std::ssize(graph_.weights); ++unit)
    if (lattice_.holds(ideal, unit))
      whole_.weight += graph_.weights[at(unit)];
    else
      for (const int net : graph_.nets_of[at(unit)]) ++before_[at(net)];
  for (std::size_t net = 0; net < before_.size(); ++net)
    if (before_[net] > 0 && before_[net] < std::ssize(graph_.nets[net].units))
      whole_.open_s += graph_.nets[net].transfer_s;
  whole_.cut_s = whole_.open_s;
}

/// Every device that takes units off `from`, after the one that leaves `ideal` and has `load`.
void Pass::extend(int from, int ideal, const Load& load) {
  if (too_large_ = is_too_large(); too_large_) return;
  const std::size_t steps = lattice_.below(ideal).size();
  if (seen_.size() < at(lattice_.count())) seen_.resize(at(lattice_.count()), kNone);
  for (std::size_t step = 0; step < steps; ++step) {
    const auto [unit, smaller] = lattice_.below(ideal)[step];  // a span lives until the next call
    if (seen_[at(smaller)] == from) continue;
    seen_[at(smaller)] = from;
    const Load sum = with(load, unit);
    if (can_grow(sum)) {
      offer(from, smaller, sum);
      extend(from, smaller, sum);
    }
    without(unit);
  }
}

Pass::Load Pass::with(const Load& load, int unit) {
  Load sum = load;
  sum.weight += graph_.weights[at(unit)];
  for (const int n : graph_.nets_of[at(unit)]) {
    const MsrNet& net = graph_.nets[at(n)];
    const int all = static_cast<int>(net.units.size());
    const int inside = ++inside_[at(n)], placed = inside + before_[at(n)];
    if (inside == 1) sum.cut_s += net.transfer_s;
    if (inside == 1 && placed > 1) sum.shared_s += net.transfer_s;
    if (inside == all) sum.cut_s -= net.transfer_s;
    if (placed == 1) sum.open_s += net.transfer_s;
    if (placed == all) sum.open_s -= net.transfer_s;
  }
  return sum;
}

void Pass::without(int unit) {
  for (const int net : graph_.nets_of[at(unit)]) --inside_[at(net)];
}

bool Pass::can_grow(const Load& load) const {
  for (int c = 0; c < ranks_.classes(); ++c)
    if (msr_load(load.weight, load.shared_s, ranks_.spec(c)) < limit_) return true;
  return false;
}

void Pass::offer(int from, int ideal, const Load& load) {
  for (int c = 0; c < ranks_.classes(); ++c) {
    const double alone = msr_load(load.weight, load.cut_s, ranks_.spec(c));
    if (alone >= limit_) continue;
    for (const int crew : crews_) {
      if (ranks_.ranks_in(crew, c) == ranks_.ranks_in(ranks_.all(), c)) continue;
      const int larger = crew + one_of_[at(c)];
      if (ideal != nothing_ && !can_finish(larger, load)) continue;
      const double price = std::max(cell(from, crew).price, alone);
      reach(ideal);
      if (price < cell(ideal, larger).price) cell(ideal, larger) = {price, from, c};
    }
  }
}

/// Whether the ranks outside the crew can take what is left, by its compute and the transfers that each
/// open tensor costs at least one of them.
bool Pass::can_finish(int crew, const Load& load) const {
  const double compute_s = whole_.weight.accelerator_s - load.weight.accelerator_s;
  const double capacity = capacity_[at(crew)] * kRounding;
  return compute_s <= capacity &&
         (load.open_s <= 0 || compute_s + transfer_weight_[at(crew)] * load.open_s <= capacity);
}

std::optional<MsrPartition> Pass::best() {
  if (reached_[0].empty()) return std::nullopt;
  int crew = 0;
  for (int other = 1; other <= ranks_.all(); ++other)
    if (cell(nothing_, other).price < cell(nothing_, crew).price) crew = other;
  MsrPartition partition;
  partition.price = cell(nothing_, crew).price;
  std::vector<int> crews;
  for (int ideal = nothing_; ideal != IdealLattice::kFull;) {
    const Cell& last = cell(ideal, crew);
    partition.parts.push_back({kNone, units_between(last.left_before, ideal)});
    crews.push_back(one_of_[at(last.last_class)]);
    crew -= crews.back();
    ideal = last.left_before;
  }
  std::reverse(partition.parts.begin(), partition.parts.end());
  std::reverse(crews.begin(), crews.end());
  const auto dealt = ranks_.deal(crews);
  for (std::size_t part = 0; part < dealt.size(); ++part) partition.parts[part].rank = dealt[part].front();
  return partition;
}

std::vector<int> Pass::units_between(int ideal, int smaller) const {
  std::vector<int> units;
  for (int unit = 0; unit < std::ssize(graph_.weights); ++unit)
    if (lattice_.holds(ideal, unit) && !lattice_.holds(smaller, unit)) units.push_back(unit);
  return units;
}

/// The best partition of the units' order.
MsrPartition search_order(const MsrGraph& graph, const RankClasses& ranks, double below, Deadline deadline) {
  WorkGraph chain{graph.order.units, std::vector<std::vector<int>>(graph.weights.size())};
  for (int unit = 0; unit + 1 < std::ssize(graph.weights); ++unit) chain.successors[at(unit)] = {unit + 1};
  Pass pass(graph, chain, ranks, deadline);
  MsrPartition best = pass.below(below).value_or(MsrPartition{});
  best.timed_out = pass.timed_out();
  return best;
}

}  // namespace

std::vector<Stage> stages_of(const MsrGraph& graph, const MsrPartition& partition) {
  std::vector<Stage> stages;
  for (const auto& [rank, units] : partition.parts) {
    Stage& stage = stages.emplace_back();
    stage.index = static_cast<int>(stages.size()) - 1;
    stage.owners = {rank};
    for (const int unit : units)
      for (const LayerWork& work : graph.order.units[at(unit)].works) stage.layers.push_back(work.layer);
    std::sort(stage.layers.begin(), stage.layers.end());
  }
  return stages;
}

MsrPartition search_msr(const MsrGraph& graph, const WorkGraph& order, const Cluster& cluster, double below,
                        Deadline deadline) {
  const RankClasses ranks(cluster, whole_cluster(cluster).ranks);
  MsrPartition best = search_order(graph, ranks, below, deadline);
  const double floor = msr_floor(graph, cluster);
  best.lower_bound = floor;
  Pass pass(graph, order, ranks, deadline);
  const auto most = [&] { return std::min(best.price, below); };
  for (double gap = 0.02; most() > best.lower_bound * kRounding; gap *= 2) {
    const double limit = gap < 100 ? std::min(floor * (1 + gap), most()) : most();
    auto found = pass.below(limit);
    best.timed_out |= pass.timed_out();
    if (pass.given_up()) break;
    if (found) best = std::move(*found);
    best.lower_bound = found ? best.price : limit;
    if (found) break;
  }
  return best;
}

}  // namespace sluice
