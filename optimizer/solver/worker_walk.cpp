#include "optimizer/solver/worker_walk.h"

#include <algorithm>

#include "core/index.h"
#include "optimizer/solver/ideals.h"

namespace sluice {
namespace {

/// Held in memory at once: of a general graph some hundred bytes each, of chains four.
constexpr std::int64_t kMostIdeals = 4'000'000, kMostPrefixes = 256'000'000;
/// Loads of intervals that are worth a table of 2 GB.
constexpr std::int64_t kMostIntervals = 16'000'000;

double compute_s_of(const Unit& unit, const WorkerCost& cost) {
  WorkerTally tally(cost);
  for (const LayerWork& work : unit.works) tally.add(work);
  return tally.load().compute_s;
}

void append(std::vector<LayerWork>& works, const Unit& unit) {
  works.insert(works.end(), unit.works.begin(), unit.works.end());
}

/// Units [first, last), each after the one before it. An ideal holds a prefix of it.
struct Chain {
  int first = 0;
  int last = 0;
  std::vector<double> compute_s;  ///< of each prefix
  [[nodiscard]] int length() const { return last - first; }
};

/// The chains of which the graph is made, side by side; none if it is not.
std::vector<Chain> chains_of(const WorkGraph& graph) {
  std::vector<Chain> chains;
  const int units = static_cast<int>(graph.units.size());
  for (int unit = 0, first = 0, furthest = 0; unit < units; ++unit) {
    const std::vector<int>& successors = graph.successors[at(unit)];
    for (const int successor : successors) furthest = std::max(furthest, successor);
    if (std::find(successors.begin(), successors.end(), unit + 1) != successors.end()) continue;
    if (furthest > unit) return {};
    chains.push_back({first, unit + 1, {}});
    first = unit + 1;
  }
  return chains;
}

void sum_prefixes(std::vector<Chain>& chains, const WorkGraph& graph, const WorkerCost& cost) {
  for (Chain& chain : chains) {
    chain.compute_s.push_back(0);
    for (int unit = chain.first; unit < chain.last; ++unit)
      chain.compute_s.push_back(chain.compute_s.back() + compute_s_of(graph.units[at(unit)], cost));
  }
}

/// One chain: an ideal's number is the length of the prefix. The loads of all intervals are tabulated once, since every
/// pass of a search needs them.
class IntervalWalk : public WorkerWalk {
 public:
  IntervalWalk(const WorkGraph& graph, const WorkerObjective& objective, const Chain& chain)
      : graph_(&graph), compute_s_(chain.compute_s), crossing_{{}} {
    WorkerTally tally(objective.cost());
    for (int above = 1; above <= chain.length(); ++above) {
      std::vector<WorkerLoad>& loads = loads_.emplace_back();
      for (int below = above - 1; below >= 0; --below) {
        for (const LayerWork& work : graph.units[at(below)].works) tally.add(work);
        loads.push_back(tally.load());
      }
      crossing_.push_back(objective.crossing(loads.back()));
      for (int unit = 0; unit < above; ++unit)
        for (const LayerWork& work : graph.units[at(unit)].works) tally.remove(work);
    }
  }

  int full() const override { return count() - 1; }
  int count() const override { return static_cast<int>(compute_s_.size()); }
  int units_in(int ideal) const override { return ideal; }
  double compute_s(int ideal) const override { return compute_s_[at(ideal)]; }
  Crossing crossing(int ideal) const override { return crossing_[at(ideal)]; }

  void visit_below(int ideal, std::span<const ComputeWindow> windows, Visitor& visitor) override {
    auto window = windows.begin();
    for (int below = ideal - 1; below >= 0; --below) {
      const double worker_s = compute_s_[at(ideal)] - compute_s_[at(below)];
      while (window != windows.end() && worker_s >= window->limit_s) ++window;
      if (window == windows.end()) return;
      if (worker_s < window->least_s || !visitor.wants(below, worker_s)) continue;
      if (!visitor.visit(below, loads_[at(ideal - 1)][at(ideal - 1 - below)])) return;
    }
  }

  std::vector<LayerWork> works_between(int below, int above) const override {
    std::vector<LayerWork> works;
    for (int unit = below; unit < above; ++unit) append(works, graph_->units[at(unit)]);
    return works;
  }

 private:
  const WorkGraph* graph_;
  std::vector<double> compute_s_;  ///< by prefix
  std::vector<Crossing> crossing_;
  std::vector<std::vector<WorkerLoad>> loads_;  ///< [above - 1][above - 1 - below]
};

/// Several chains side by side: an ideal is a prefix of each, numbered in mixed radix. For every choice of
/// prefixes of the other chains, those of the last that lie in a window follow from prefix sums.
class ChainsWalk : public WorkerWalk {
 public:
  ChainsWalk(const WorkGraph& graph, const WorkerObjective& objective, std::vector<Chain> chains)
      : graph_(&graph), chains_(std::move(chains)), tally_(objective.cost()) {
    for (std::size_t c = chains_.size(); c > 0; --c) {
      stride_[c - 1] = count_;
      count_ *= chains_[c - 1].length() + 1;
    }
    if (count_ <= kMostIdeals) tabulate_crossings(objective);
  }

  int full() const override { return count_ - 1; }
  int count() const override { return count_; }
  int units_in(int ideal) const override {
    int units = 0;
    for (std::size_t c = 0; c < chains_.size(); ++c) units += prefix(ideal, c);
    return units;
  }
  double compute_s(int ideal) const override {
    double sum_s = 0;
    for (std::size_t c = 0; c < chains_.size(); ++c) sum_s += chains_[c].compute_s[at(prefix(ideal, c))];
    return sum_s;
  }
  Crossing crossing(int ideal) const override { return !crossing_.empty() ? crossing_[at(ideal)] : Crossing{}; }

  void visit_below(int ideal, std::span<const ComputeWindow> windows, Visitor& visitor) override {
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      while (below_[c] < above_[c]) drop(c);
      above_[c] = below_[c] = prefix(ideal, c);
    }
    above_ideal_ = ideal;
    visit_prefixes(0, 0, windows, visitor);
  }

  std::vector<LayerWork> works_between(int below, int above) const override {
    std::vector<LayerWork> works;
    for (std::size_t c = 0; c < chains_.size(); ++c)
      for (int unit = prefix(below, c); unit < prefix(above, c); ++unit)
        append(works, graph_->units[at(chains_[c].first + unit)]);
    return works;
  }

 private:
  [[nodiscard]] int prefix(int ideal, std::size_t c) const { return ideal / stride_[c] % (chains_[c].length() + 1); }
  [[nodiscard]] const std::vector<LayerWork>& works(std::size_t c, int unit) const {
    return graph_->units[at(chains_[c].first + unit)].works;
  }
  void take(std::size_t c) {
    for (const LayerWork& work : works(c, --below_[c])) tally_.add(work);
  }
  void drop(std::size_t c) {
    for (const LayerWork& work : works(c, below_[c]++)) tally_.remove(work);
  }

  /// The last chain's prefixes grow and shrink again for each choice of the others'.
  void tabulate_crossings(const WorkerObjective& objective) {
    crossing_.resize(at(count_));
    WorkerTally tally(objective.cost());
    std::vector<int> ends(chains_.size());
    fill_crossings(0, ends, tally, objective);
  }
  void fill_crossings(std::size_t c, std::vector<int>& ends, WorkerTally& tally, const WorkerObjective& objective) {
    if (c == chains_.size()) {
      crossing_[at(number_of(ends))] = objective.crossing(tally.load());
      return;
    }
    for (ends[c] = 0;; ++ends[c]) {
      fill_crossings(c + 1, ends, tally, objective);
      if (ends[c] == chains_[c].length()) break;
      for (const LayerWork& work : works(c, ends[c])) tally.add(work);
    }
    for (; ends[c] > 0; --ends[c])
      for (const LayerWork& work : works(c, ends[c] - 1)) tally.remove(work);
  }

  void visit_prefixes(std::size_t c, double others_s, std::span<const ComputeWindow> windows, Visitor& visitor) {
    if (c + 1 == chains_.size()) return visit_last(others_s, windows, visitor);
    const std::vector<double>& compute_s = chains_[c].compute_s;
    for (int end = above_[c]; end >= 0; --end) {
      const double own_s = others_s + compute_s[at(above_[c])] - compute_s[at(end)];
      if (own_s >= windows.back().limit_s) break;
      wanted_[c] = end;
      visit_prefixes(c + 1, own_s, windows, visitor);
    }
  }

  void visit_last(double others_s, std::span<const ComputeWindow> windows, Visitor& visitor) {
    const std::size_t c = chains_.size() - 1;
    const std::vector<double>& compute_s = chains_[c].compute_s;
    const double all_s = others_s + compute_s[at(above_[c])];
    for (const ComputeWindow& window : windows) {
      if (others_s >= window.limit_s) continue;
      // The longest prefix that leaves enough to the worker.
      const auto begin = compute_s.begin(), end = begin + above_[c] + 1;
      int below = static_cast<int>(std::upper_bound(begin, end, all_s - window.least_s) - begin) - 1;
      for (; below >= 0 && all_s - compute_s[at(below)] < window.limit_s; --below) {
        wanted_[c] = below;
        const int ideal = number_of(wanted_);
        if (ideal == above_ideal_ || !visitor.wants(ideal, all_s - compute_s[at(below)])) continue;
        go();
        if (!visitor.visit(ideal, tally_.load())) return;
      }
    }
  }

  void go() {
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      while (below_[c] > wanted_[c]) take(c);
      while (below_[c] < wanted_[c]) drop(c);
    }
  }
  [[nodiscard]] int number_of(const std::vector<int>& prefixes) const {
    int number = 0;
    for (std::size_t c = 0; c < chains_.size(); ++c) number += prefixes[c] * stride_[c];
    return number;
  }

  const WorkGraph* graph_;
  std::vector<Chain> chains_;
  std::vector<int> stride_ =
      std::vector<int>(chains_.size());  ///< neighbours in the last chain have neighbouring numbers
  int count_ = 1;
  std::vector<Crossing> crossing_;                              ///< by ideal; none where there are too many
  WorkerTally tally_;                                           ///< of what lies between below_ and above_
  int above_ideal_ = 0;                                         ///< whose workers are visited
  std::vector<int> above_ = std::vector<int>(chains_.size());   ///< its prefixes
  std::vector<int> below_ = std::vector<int>(chains_.size());   ///< prefixes behind which the worker begins
  std::vector<int> wanted_ = std::vector<int>(chains_.size());  ///< where below_ is to go
};

/// Any graph: depth-first through the lattice. The tally follows only to where a worker is visited.
class LatticeWalk : public WorkerWalk {
 public:
  LatticeWalk(const WorkGraph& graph, const WorkerObjective& objective)
      : graph_(&graph),
        objective_(&objective),
        lattice_(graph, kMostIdeals),
        tally_(objective.cost()),
        compute_s_{0},
        crossing_(1),
        seen_{0},
        front_(objective.cost()) {
    for (const Unit& unit : graph.units) {
      compute_s_[0] += unit_s_.emplace_back(compute_s_of(unit, objective.cost()));
      for (const LayerWork& work : unit.works) front_.add(work);
    }
  }

  int full() const override { return IdealLattice::kFull; }
  int count() const override { return lattice_.count(); }
  int units_in(int ideal) const override { return lattice_.units_in(ideal); }
  double compute_s(int ideal) const override { return compute_s_[at(ideal)]; }
  Crossing crossing(int ideal) const override { return crossing_[at(ideal)]; }

  bool is_exhausted() const override { return exhausted_; }

  void visit_below(int ideal, std::span<const ComputeWindow> windows, Visitor& visitor) override {
    ++round_;
    above_s_ = compute_s_[at(ideal)];
    windows_ = windows;
    descend(ideal, visitor);
  }

  std::vector<LayerWork> works_between(int below, int above) const override {
    std::vector<LayerWork> works;
    for (int unit = 0; unit < std::ssize(graph_->units); ++unit)
      if (lattice_.holds(above, unit) && !lattice_.holds(below, unit)) append(works, graph_->units[at(unit)]);
    return works;
  }

 private:
  void descend(int ideal, Visitor& visitor) {
    exhausted_ = exhausted_ || lattice_.count() + std::ssize(graph_->units) > kMostIdeals;
    if (exhausted_ || visitor.is_out_of_time()) return;
    const std::size_t steps = lattice_.below(ideal).size();
    meet(ideal);
    for (std::size_t k = 0; k < steps; ++k) {
      const IdealLattice::Step step = lattice_.below(ideal)[k];
      if (seen_[at(step.below)] == round_) continue;
      seen_[at(step.below)] = round_;
      const double worker_s = above_s_ - compute_s_[at(step.below)];
      if (worker_s >= windows_.back().limit_s) continue;
      path_.push_back(step.unit);
      const bool wanted = in_window(worker_s) && visitor.wants(step.below, worker_s);
      if (!wanted || visitor.visit(step.below, load_of_path())) descend(step.below, visitor);
      path_.pop_back();
      if (tallied_ > path_.size()) {
        --tallied_;
        for (const LayerWork& work : graph_->units[at(step.unit)].works) tally_.remove(work);
      }
    }
  }

  [[nodiscard]] bool in_window(double worker_s) const {
    for (const ComputeWindow& window : windows_)
      if (worker_s < window.limit_s) return worker_s >= window.least_s;
    return false;
  }

  WorkerLoad load_of_path() {
    for (; tallied_ < path_.size(); ++tallied_)
      for (const LayerWork& work : graph_->units[at(path_[tallied_])].works) tally_.add(work);
    return tally_.load();
  }

  /// Knows the ideals just below one.
  void meet(int ideal) {
    const std::size_t known = seen_.size();
    if (at(lattice_.count()) == known) return;
    seen_.resize(at(lattice_.count()));
    compute_s_.resize(at(lattice_.count()));
    crossing_.resize(at(lattice_.count()));
    for (const IdealLattice::Step& step : lattice_.below(ideal)) {
      if (at(step.below) < known) continue;
      compute_s_[at(step.below)] = compute_s_[at(ideal)] - unit_s_[at(step.unit)];
      go_to_front(step.below);
      crossing_[at(step.below)] = objective_->crossing(front_.load());
    }
  }

  /// Ideals are met one near the other.
  void go_to_front(int ideal) {
    lattice_.for_each_difference(front_ideal_, ideal, [&](int unit, bool comes) {
      for (const LayerWork& work : graph_->units[at(unit)].works) comes ? front_.add(work) : front_.remove(work);
    });
    front_ideal_ = ideal;
  }

  const WorkGraph* graph_;
  const WorkerObjective* objective_;
  IdealLattice lattice_;
  WorkerTally tally_;
  std::vector<double> unit_s_;
  std::vector<double> compute_s_;  ///< by ideal
  std::vector<Crossing> crossing_;
  std::vector<int> seen_;  ///< by ideal: the last round that met it
  int round_ = 0;
  bool exhausted_ = false;
  double above_s_ = 0;
  std::span<const ComputeWindow> windows_;
  WorkerTally front_;  ///< of a whole ideal
  int front_ideal_ = IdealLattice::kFull;
  std::vector<int> path_;    ///< the units of the worker
  std::size_t tallied_ = 0;  ///< so many of them are in the tally
};

}  // namespace

std::unique_ptr<WorkerWalk> worker_walk(const WorkGraph& graph, const WorkerObjective& objective) {
  std::vector<Chain> chains = chains_of(graph);
  std::int64_t prefixes = chains.empty() ? 0 : 1;
  for (const Chain& chain : chains) prefixes = std::min(prefixes * (chain.length() + 1), kMostPrefixes + 1);
  if (prefixes == 0 || (chains.size() > 3 && prefixes > kMostIdeals))
    return std::make_unique<LatticeWalk>(graph, objective);
  if (prefixes > kMostPrefixes) return nullptr;
  sum_prefixes(chains, graph, objective.cost());
  if (chains.size() == 1 && prefixes * prefixes / 2 <= kMostIntervals)
    return std::make_unique<IntervalWalk>(graph, objective, chains[0]);
  return std::make_unique<ChainsWalk>(graph, objective, std::move(chains));
}

}  // namespace sluice
