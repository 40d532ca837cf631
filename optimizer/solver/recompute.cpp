#include "optimizer/solver/recompute.h"

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

class Search {
 public:
  Search(WorkerTally& tally, const WorkerCost& cost, const Seat& seat, const RankSpec& rank, int steps)
      : tally_(tally), cost_(cost), seat_(seat), rank_(rank), steps_(steps) {
    collect_candidates();
    taken_.resize(candidates_.size());
  }

  Recomputation best() {
    keep_if_better();
    if (bound(tally_.load(), 0) < best_.price) start_well();
    visit(0);
    best_.lower_bound = std::min(best_.price, left_out_);
    std::sort(best_.layers.begin(), best_.layers.end());
    return best_;
  }

 private:
  /// A layer, what it costs to recompute, and the most that it can save.
  struct Candidate {
    LayerId layer = 0;
    double forward_s = 0;
    double held_bytes = 0;
    double received_bytes = 0;
  };

  /// Readers before makers: when a layer's turn comes, it is known who reads what it makes.
  void collect_candidates() {
    const std::vector<LayerCost>& costs = cost_.profile().costs;
    for (LayerId layer = static_cast<LayerId>(costs.size()) - 1; layer >= 0; --layer) {
      if (!tally_.runs({layer, Work::backward_input})) continue;
      const WorkerLoad kept = tally_.load_of_tensors(layer, false), again = tally_.load_of_tensors(layer, true);
      const auto held = static_cast<double>(cost_.memory_bytes(kept, seat_) - cost_.memory_bytes(again, seat_));
      const double received = kept.received_bytes - again.received_bytes;
      if (held > 0 || received > 0)
        candidates_.push_back({layer, costs[at(layer)].forward_s, std::max(held, 0.0), received});
    }
    by_worth_.resize(candidates_.size());
    std::iota(by_worth_.begin(), by_worth_.end(), 0);
    std::sort(by_worth_.begin(), by_worth_.end(), [&](int a, int b) {
      const Candidate &left = candidates_[at(a)], &right = candidates_[at(b)];
      return left.held_bytes * right.forward_s > right.held_bytes * left.forward_s;
    });
    received_of_rest_.assign(candidates_.size() + 1, 0);
    for (std::size_t i = candidates_.size(); i > 0; --i)
      received_of_rest_[i - 1] = received_of_rest_[i] + candidates_[i - 1].received_bytes;
  }

  /// Seconds at speed 1 that candidates from `first` on take at least to save so much: parts of them in
  /// order of worth (Dantzig 1957).
  [[nodiscard]] double least_forward_s(double held_bytes, int first) const {
    double seconds = 0;
    for (const int i : by_worth_) {
      if (held_bytes <= 0) break;
      const Candidate& candidate = candidates_[at(i)];
      if (i < first || candidate.held_bytes == 0) continue;
      seconds += candidate.forward_s * std::min(1.0, held_bytes / candidate.held_bytes);
      held_bytes -= candidate.held_bytes;
    }
    return held_bytes > 0 ? kInfinity : seconds;
  }

  /// Of `load` and whatever is done about candidates from `first` on.
  [[nodiscard]] double bound(WorkerLoad load, int first) const {
    const auto excess = static_cast<double>(cost_.memory_bytes(load, seat_)) - static_cast<double>(rank_.memory_bytes);
    load.compute_s += least_forward_s(excess, first);
    load.received_bytes -= received_of_rest_[at(first)];
    return std::max(cost_.compute_s(load, seat_, rank_.speed), cost_.link_s(load, seat_));
  }

  void visit(int next) {
    const double least = bound(tally_.load(), next);
    if (least >= best_.price) return;
    if (next == std::ssize(candidates_)) return keep_if_better();
    if (--steps_ < 0) {
      left_out_ = std::min(left_out_, least);
      return;
    }
    visit(next + 1);
    if (!tally_.reads_after_forward(candidates_[at(next)].layer)) return;
    toggle(next);
    visit(next + 1);
    toggle(next);
  }

  /// A set to begin with: the worthiest layers until it fits, then single changes that pay.
  void start_well() {
    std::vector<int> order = by_worth_;
    for (const int i : order)
      if (price() == kInfinity) toggle(i);
    for (bool improved = true; improved;) {
      improved = false;
      for (const int i : order) {
        const double before = price();
        toggle(i);
        if (price() < before)
          improved = true;
        else
          toggle(i);
      }
    }
    keep_if_better();
    for (int i = 0; i < std::ssize(taken_); ++i)
      if (taken_[at(i)]) toggle(i);
  }

  void toggle(int i) {
    const LayerWork recompute{candidates_[at(i)].layer, Work::recompute};
    taken_[at(i)] ? tally_.remove(recompute) : tally_.add(recompute);
    taken_[at(i)] = !taken_[at(i)];
  }

  [[nodiscard]] double price() const { return cost_.price(tally_.load(), seat_, rank_); }

  void keep_if_better() {
    if (price() >= best_.price) return;
    best_.price = price();
    best_.layers.clear();
    for (std::size_t i = 0; i < taken_.size(); ++i)
      if (taken_[i]) best_.layers.push_back(candidates_[i].layer);
  }

  WorkerTally& tally_;
  const WorkerCost& cost_;
  const Seat seat_;
  const RankSpec rank_;
  std::vector<Candidate> candidates_;
  std::vector<int> by_worth_;             // candidates, most bytes held per second first
  std::vector<double> received_of_rest_;  // by candidate: it and all after it
  std::vector<bool> taken_;
  Recomputation best_{{}, kInfinity, 0};
  double left_out_ = kInfinity;  // bound of all that was not looked at
  int steps_;
};

}  // namespace

Recomputation best_recomputation(WorkerTally& tally, const WorkerCost& cost, const Seat& seat, const RankSpec& rank,
                                 int steps) {
  return Search(tally, cost, seat, rank, steps).best();
}

double recomputation_floor(const WorkerCost& cost, WorkerLoad load, const Seat& seat, const RankSpec& rank) {
  // At best whatever is stashed or arrives is there for one micro-batch at a time, or until it has left.
  WorkerLoad::Holdings& held = load.holdings;
  held.always += held.stashed + held.arriving + held.delayed;
  held.leaving += held.stashed_leaving;
  held.stashed = held.stashed_leaving = held.arriving = held.delayed = 0;
  load.received_bytes = load.least_received_bytes;
  return cost.price(load, seat, rank);
}

}  // namespace sluice
