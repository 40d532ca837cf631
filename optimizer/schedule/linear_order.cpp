#include "optimizer/schedule/linear_order.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"

namespace sluice {
namespace {

/// The compute lists run with free communication, one instruction after the other by start time.
class FreeRun {
 public:
  FreeRun(const Plan& plan, const DataFlow& flow, const ComputeLists& lists)
      : plan_(plan), flow_(flow), lists_(lists), rank_free_s_(lists.size(), 0), start_s_(lists.size()) {}

  std::vector<std::vector<int>> order() {
    std::vector<std::vector<int>> order(lists_.size());
    std::size_t remaining = 0;
    for (const auto& list : lists_) remaining += list.size();
    for (int position = 0; remaining > 0; ++position, --remaining) {
      const Rank rank = next_rank(order);
      run(lists_[at(rank)][order[at(rank)].size()], rank);
      order[at(rank)].push_back(position);
    }
    return order;
  }

 private:
  Rank next_rank(const std::vector<std::vector<int>>& done) {
    Rank best = kNone;
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank) {
      const std::size_t index = done[at(rank)].size();
      if (index == lists_[at(rank)].size()) continue;
      if (!start_s_[at(rank)]) start_s_[at(rank)] = start_of(lists_[at(rank)][index], rank);
      if (start_s_[at(rank)] && (best == kNone || *start_s_[at(rank)] < *start_s_[at(best)])) best = rank;
    }
    if (best == kNone) throw infeasible("the schedule's compute lists wait for each other in a circle");
    return best;
  }

  /// Nothing while one of the values that it reads is still to be written.
  std::optional<double> start_of(const Instruction& instruction, Rank rank) const {
    double start_s = rank_free_s_[at(rank)];
    for (const ValueUse& use : flow_.access(instruction, rank).reads) {
      if (plan_.profile.model.tensors[at(use.value.tensor)].producer == kDataset) continue;
      const auto written = written_s_.find(use);
      if (written == written_s_.end()) return std::nullopt;
      start_s = std::max(start_s, written->second);
    }
    return start_s;
  }

  void run(const Instruction& instruction, Rank rank) {
    const double end_s = *start_s_[at(rank)] + instruction_time(plan_, instruction, rank);
    for (const ValueUse& use : flow_.access(instruction, rank).writes) written_s_[use] = end_s;
    rank_free_s_[at(rank)] = end_s;
    start_s_[at(rank)].reset();
  }

  const Plan& plan_;
  const DataFlow& flow_;
  const ComputeLists& lists_;
  std::vector<double> rank_free_s_;
  std::vector<std::optional<double>> start_s_;  // of each rank's next instruction, once known
  std::map<ValueUse, double> written_s_;
};

}  // namespace

std::vector<std::vector<int>> linear_order(const Plan& plan, const DataFlow& flow, const ComputeLists& lists) {
  return FreeRun(plan, flow, lists).order();
}

}  // namespace sluice
