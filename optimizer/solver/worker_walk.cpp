#include "optimizer/solver/worker_walk.h"

#include <algorithm>

#include "core/index.h"
#include "optimizer/solver/ideals.h"

namespace sluice {
namespace {

double compute_s_of(const Unit& unit, const WorkerCost& cost) {
  WorkerTally tally(cost);
  for (const LayerWork& work : unit.works) tally.add(work);
  return tally.load().compute_s;
}

/// Every unit follows the one before it: an ideal is a prefix and has its length
/// as number. The loads of all intervals are tabulated once, since every pass of a search needs them.
class ChainWalk : public WorkerWalk {
 public:
  ChainWalk(const WorkGraph& graph, const WorkerCost& cost) : graph_(&graph), compute_s_{0} {
    const int units = static_cast<int>(graph.units.size());
    for (const Unit& unit : graph.units) compute_s_.push_back(compute_s_.back() + compute_s_of(unit, cost));
    WorkerTally tally(cost);
    for (int above = 1; above <= units; ++above) {
      std::vector<WorkerLoad>& loads = loads_.emplace_back();
      for (int below = above - 1; below >= 0; --below) {
        for (const LayerWork& work : graph.units[at(below)].works) tally.add(work);
        loads.push_back(tally.load());
      }
      for (int unit = 0; unit < above; ++unit)
        for (const LayerWork& work : graph.units[at(unit)].works) tally.remove(work);
    }
  }

  int full() const override { return count() - 1; }
  int count() const override { return static_cast<int>(compute_s_.size()); }
  int units_in(int ideal) const override { return ideal; }
  double compute_s(int ideal) const override { return compute_s_[at(ideal)]; }

  void visit_below(int ideal, Visitor& visitor) override {
    if (ideal == 0) return;
    const WorkerLoad* load = loads_[at(ideal - 1)].data();
    for (int below = ideal - 1; below >= 0; --below)
      if (!visitor.visit(below, *load++)) return;
  }

  std::vector<LayerWork> works_between(int below, int above) const override {
    std::vector<LayerWork> works;
    for (int unit = below; unit < above; ++unit)
      works.insert(works.end(), graph_->units[at(unit)].works.begin(), graph_->units[at(unit)].works.end());
    return works;
  }

 private:
  const WorkGraph* graph_;
  std::vector<double> compute_s_;
  std::vector<std::vector<WorkerLoad>> loads_;  ///< [above - 1][above - 1 - below]
};

/// Any graph: depth-first through the lattice, a tally following.
class LatticeWalk : public WorkerWalk {
 public:
  LatticeWalk(const WorkGraph& graph, const WorkerCost& cost, std::int64_t most_ideals)
      : graph_(&graph), lattice_(graph, most_ideals), tally_(cost), compute_s_{0}, seen_{0} {
    for (const Unit& unit : graph.units) compute_s_[0] += unit_s_.emplace_back(compute_s_of(unit, cost));
  }

  int full() const override { return IdealLattice::kFull; }
  int count() const override { return lattice_.count(); }
  int units_in(int ideal) const override { return lattice_.units_in(ideal); }
  double compute_s(int ideal) const override { return compute_s_[at(ideal)]; }

  void visit_below(int ideal, Visitor& visitor) override {
    ++round_;
    descend(ideal, visitor);
  }

  std::vector<LayerWork> works_between(int below, int above) const override {
    std::vector<LayerWork> works;
    for (int unit = 0; unit < std::ssize(graph_->units); ++unit)
      if (lattice_.holds(above, unit) && !lattice_.holds(below, unit))
        works.insert(works.end(), graph_->units[at(unit)].works.begin(), graph_->units[at(unit)].works.end());
    return works;
  }

 private:
  void descend(int ideal, Visitor& visitor) {
    const std::size_t steps = lattice_.below(ideal).size();
    for (std::size_t k = 0; k < steps; ++k) {
      const IdealLattice::Step step = lattice_.below(ideal)[k];
      meet(ideal, step);
      if (seen_[at(step.below)] == round_) continue;
      seen_[at(step.below)] = round_;
      const std::vector<LayerWork>& works = graph_->units[at(step.unit)].works;
      for (const LayerWork& work : works) tally_.add(work);
      if (visitor.visit(step.below, tally_.load())) descend(step.below, visitor);
      for (const LayerWork& work : works) tally_.remove(work);
    }
  }

  void meet(int ideal, const IdealLattice::Step& step) {
    if (step.below < std::ssize(seen_)) return;
    seen_.resize(at(lattice_.count()));
    compute_s_.resize(at(lattice_.count()));
    for (const IdealLattice::Step& sibling : lattice_.below(ideal))
      compute_s_[at(sibling.below)] = compute_s_[at(ideal)] - unit_s_[at(sibling.unit)];
  }

  const WorkGraph* graph_;
  IdealLattice lattice_;
  WorkerTally tally_;
  std::vector<double> unit_s_;
  std::vector<double> compute_s_;  ///< by ideal
  std::vector<int> seen_;          ///< by ideal: the last round that met it
  int round_ = 0;
};

bool is_chain(const WorkGraph& graph) {
  for (int unit = 0; unit + 1 < std::ssize(graph.units); ++unit) {
    const std::vector<int>& successors = graph.successors[at(unit)];
    if (std::find(successors.begin(), successors.end(), unit + 1) == successors.end()) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<WorkerWalk> worker_walk(const WorkGraph& graph, const WorkerCost& cost, std::int64_t most_ideals) {
  if (is_chain(graph)) return std::make_unique<ChainWalk>(graph, cost);
  return std::make_unique<LatticeWalk>(graph, cost, most_ideals);
}

}  // namespace sluice
