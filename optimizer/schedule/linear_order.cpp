#include "optimizer/schedule/linear_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"

namespace sluice {
namespace {

/// The figure's cells run with free communication, one after the other by start time.
class FreeRun {
 public:
  FreeRun(const Plan& plan, const Figure& figure)
      : plan_(plan), figure_(figure), order_(figure.size()), rank_free_s_(figure.size(), 0) {
    for (const auto& cells : figure)
      for (const Cell& cell : cells) depth_ = std::max(depth_, cell.position + 1);
  }

  std::vector<std::vector<int>> order() {
    for (Rank rank = 0; rank < std::ssize(figure_); ++rank) queue_next_of(rank);
    for (int number = 0; !ready_.empty(); ++number) {
      const auto [start_s, rank] = ready_.top();
      ready_.pop();
      const Cell& cell = next_of(rank);
      order_[at(rank)].push_back(number);
      rank_free_s_[at(rank)] = end_s_[key(cell)] = start_s + instruction_time(plan_, cell.instruction, rank);
      queue_next_of(rank);
      if (const auto follower = waiting_.find(key(cell)); follower != waiting_.end()) queue_next_of(follower->second);
    }
    for (std::size_t rank = 0; rank < figure_.size(); ++rank)
      if (order_[rank].size() < figure_[rank].size())
        throw infeasible("the schedule's cells wait for each other in a circle");
    return std::move(order_);
  }

 private:
  using Key = std::tuple<Op, int, int>;   // op, position, micro-batch
  using Ready = std::pair<double, Rank>;  // start of the rank's next cell
  static Key key(const Cell& cell) { return {cell.instruction.op, cell.position, cell.instruction.microbatch}; }

  [[nodiscard]] const Cell& next_of(Rank rank) const { return figure_[at(rank)][order_[at(rank)].size()]; }

  /// The rank's next cell is ready, or waits for the one that it follows.
  void queue_next_of(Rank rank) {
    if (order_[at(rank)].size() == figure_[at(rank)].size()) return;
    double start_s = rank_free_s_[at(rank)];
    if (const auto before = predecessor(next_of(rank))) {
      const auto end_s = end_s_.find(*before);
      if (end_s == end_s_.end()) {
        waiting_[*before] = rank;  // a cell has one follower at most
        return;
      }
      start_s = std::max(start_s, end_s->second);
    }
    ready_.emplace(start_s, rank);
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
  std::vector<std::vector<int>> order_;
  std::vector<double> rank_free_s_;
  std::map<Key, double> end_s_;
  std::map<Key, Rank> waiting_;  // whose next cell waits for this one
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

}  // namespace

std::vector<std::vector<int>> linear_order(const Plan& plan, const Figure& figure) {
  return FreeRun(plan, figure).order();
}

}  // namespace sluice
