#include "optimizer/schedule/linear_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"

namespace sluice {
namespace {

/// The figure's cells run with free communication, one after the other by start time.
class FreeRun {
 public:
  FreeRun(const Plan& plan, const Figure& figure) : plan_(plan), figure_(figure), rank_free_s_(figure.size(), 0) {
    for (const auto& cells : figure)
      for (const Cell& cell : cells) depth_ = std::max(depth_, cell.position + 1);
  }

  std::vector<std::vector<int>> order() {
    std::vector<std::vector<int>> order(figure_.size());
    std::size_t remaining = 0;
    for (const auto& cells : figure_) remaining += cells.size();
    for (int number = 0; remaining > 0; ++number, --remaining) {
      const auto [rank, start_s] = next(order);
      const Cell& cell = figure_[at(rank)][order[at(rank)].size()];
      rank_free_s_[at(rank)] = end_s_[key(cell)] = start_s + instruction_time(plan_, cell.instruction, rank);
      order[at(rank)].push_back(number);
    }
    return order;
  }

 private:
  using Key = std::tuple<Op, int, int>;  // op, position, micro-batch
  static Key key(const Cell& cell) { return {cell.instruction.op, cell.position, cell.instruction.microbatch}; }

  std::pair<Rank, double> next(const std::vector<std::vector<int>>& done) const {
    std::pair<Rank, double> best{kNone, 0};
    for (Rank rank = 0; rank < std::ssize(figure_); ++rank) {
      const std::size_t index = done[at(rank)].size();
      if (index == figure_[at(rank)].size()) continue;
      const auto start_s = start_of(figure_[at(rank)][index], rank);
      if (start_s && (best.first == kNone || *start_s < best.second)) best = {rank, *start_s};
    }
    if (best.first == kNone) throw infeasible("the schedule's cells wait for each other in a circle");
    return best;
  }

  /// Nothing while the cell that it follows has not run.
  std::optional<double> start_of(const Cell& cell, Rank rank) const {
    const auto before = predecessor(cell);
    if (!before) return rank_free_s_[at(rank)];
    const auto end_s = end_s_.find(*before);
    if (end_s == end_s_.end()) return std::nullopt;
    return std::max(rank_free_s_[at(rank)], end_s->second);
  }

  std::optional<Key> predecessor(const Cell& cell) const {
    const int m = cell.instruction.microbatch;
    if (cell.instruction.op == Op::forward && cell.position > 0) return Key{Op::forward, cell.position - 1, m};
    if (cell.instruction.op == Op::backward)
      return cell.position + 1 < depth_ ? Key{Op::backward, cell.position + 1, m} : Key{Op::forward, cell.position, m};
    return std::nullopt;
  }

  const Plan& plan_;
  const Figure& figure_;
  int depth_ = 0;
  std::vector<double> rank_free_s_;
  std::map<Key, double> end_s_;
};

}  // namespace

std::vector<std::vector<int>> linear_order(const Plan& plan, const Figure& figure) {
  return FreeRun(plan, figure).order();
}

}  // namespace sluice
