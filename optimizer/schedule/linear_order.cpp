#include "optimizer/schedule/linear_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/fetched_weights.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

/// What follows what, stage by stage.
class Precedence {
 public:
  using Done = std::pair<int, int>;  // stage, micro-batch

  Precedence(const Plan& plan, const std::vector<Position>& positions)
      : plan_(plan),
        positions_(positions),
        before_(plan.stages.size(), kNone),
        windows_(plan.stages.size()),
        room_(plan.stages.size()) {
    for (int k = 0; k < std::ssize(positions); ++k) set_before(k);
    for (int k = 0; k < std::ssize(positions); ++k) set_windows(k);
    set_room_for_weights();
  }

  [[nodiscard]] std::vector<Done> predecessors(const Instruction& instruction) const {
    if (instruction.op == Op::optimizer_step) return last_of(instruction.stage);
    std::vector<Done> predecessors = room_[at(instruction.stage)];
    if (const int before = before_[at(instruction.stage)]; before != kNone)
      predecessors.emplace_back(before, instruction.microbatch);
    for (const auto& [stage, delay] : windows_[at(instruction.stage)])
      if (const int m = instruction.microbatch - 1 - delay; m >= 0) predecessors.emplace_back(stage, m);
    return predecessors;
  }

  [[nodiscard]] const std::vector<int>& before() const { return before_; }

 private:
  void set_before(int k) {
    const Position& position = positions_[at(k)];
    const auto set = [&](int stage, int before) {
      if (stage != kNone) before_[at(stage)] = before;
    };
    const int follows = position.weight_follows;
    set(position.forward, nearest(&Position::forward, k - 1, -1));
    set(position.recompute, last_forward());
    set(position.backward, backward_from(k + 1));
    set(position.backward_weight, follows == kNone ? last_forward() : positions_[at(follows)].backward);
  }

  /// How far a forward may run ahead of what position k does.
  void set_windows(int k) {
    int forward = nearest(&Position::forward, k, 1);
    if (forward == kNone) forward = last_forward();
    const int least = position_of(forward).backward_delay;
    const Position& position = positions_[at(k)];
    windows_[at(forward)].emplace_back(backward_from(k), std::max(position.backward_delay, least));
    if (position.backward_weight == kNone) return;
    windows_[at(forward)].emplace_back(position.backward_weight, std::max(position.weight_delay, least));
    if (position.ordered_by_rank) return;
    // The first position's backward does not wait for it, so the first forward must.
    const int first = nearest(&Position::forward, 0, 1);
    windows_[at(first)].emplace_back(position.backward_weight,
                                     std::max(position.weight_delay, position_of(first).backward_delay));
  }

  /// A rank holds what it fetches for two stages.
  void set_room_for_weights() {
    const auto fetches = [](const Stage& stage) { return stage.fetches_weights; };
    if (std::none_of(plan_.stages.begin(), plan_.stages.end(), fetches)) return;
    const DataFlow flow(plan_);
    for (Rank rank = 0; rank < std::ssize(plan_.cluster.ranks); ++rank) {
      const std::vector<int> stages = fetching_stages(plan_, flow, rank);
      for (std::size_t j = kFetchedStagesHeld; j < stages.size(); ++j)
        for (const Done& last : last_of(stages[j - kFetchedStagesHeld]))
          if (owner(plan_.stages[at(last.first)], last.second) == rank) room_[at(stages[j])].push_back(last);
    }
  }

  /// The stage at the first position from `k` on that has one; kNone if none has.
  [[nodiscard]] int nearest(int Position::*work, int k, int step) const {
    for (; 0 <= k && k < std::ssize(positions_); k += step)
      if (positions_[at(k)].*work != kNone) return positions_[at(k)].*work;
    return kNone;
  }
  [[nodiscard]] int last_forward() const {
    return nearest(&Position::forward, static_cast<int>(positions_.size()) - 1, -1);
  }
  [[nodiscard]] int backward_from(int k) const {
    const int stage = nearest(&Position::backward, k, 1);
    return stage != kNone ? stage : last_forward();
  }
  [[nodiscard]] const Position& position_of(int forward) const {
    return *std::find_if(positions_.begin(), positions_.end(),
                         [&](const Position& position) { return position.forward == forward; });
  }

  /// The last micro-batch of each owner, the very last first: the others are most often done when it is.
  [[nodiscard]] std::vector<Done> last_of(int stage) const {
    std::vector<Done> last;
    const int owners = static_cast<int>(plan_.stages[at(stage)].owners.size());
    for (int m = plan_.microbatches - 1; m >= std::max(0, plan_.microbatches - owners); --m)
      last.emplace_back(stage, m);
    return last;
  }

  const Plan& plan_;
  const std::vector<Position>& positions_;
  std::vector<int> before_;                                // by stage: what precedes it for the same micro-batch
  std::vector<std::vector<std::pair<int, int>>> windows_;  // by stage: stages and delays
  std::vector<std::vector<Done>> room_;                    // by stage: last uses of weights that give way to its own
};

/// Everything runs with free communication, one after the other by start time.
class FreeRun {
 public:
  FreeRun(const Plan& plan, const Figure& figure)
      : plan_(plan),
        lists_(figure.ranks),
        precedence_(plan, figure.positions),
        order_(lists_.size()),
        rank_free_s_(lists_.size(), 0) {}

  std::vector<std::vector<int>> order() {
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank) queue_next_of(rank);
    for (int number = 0; !ready_.empty(); ++number) {
      const auto [start_s, rank] = ready_.top();
      ready_.pop();
      const Instruction& instruction = next_of(rank);
      order_[at(rank)].push_back(number);
      rank_free_s_[at(rank)] = start_s + instruction_time(plan_, instruction, rank);
      if (is_compute(instruction.op)) finish({instruction.stage, instruction.microbatch}, rank_free_s_[at(rank)]);
      queue_next_of(rank);
    }
    for (std::size_t rank = 0; rank < lists_.size(); ++rank)
      if (order_[rank].size() < lists_[rank].size())
        throw infeasible(text("the parts of schedule ", plan_.schedule,
                              " wait for each other in a circle: give backward-weight the cuts of backward-input, or "
                              "use 1f1b"));
    return std::move(order_);
  }

 private:
  using Done = Precedence::Done;
  using Ready = std::pair<double, Rank>;  // start of the rank's next instruction

  [[nodiscard]] const Instruction& next_of(Rank rank) const { return lists_[at(rank)][order_[at(rank)].size()]; }

  void finish(const Done& done, double end_s) {
    end_s_[done] = end_s;
    const auto waiting = waiting_.extract(done);
    if (!waiting.empty())
      for (const Rank follower : waiting.mapped()) queue_next_of(follower);
  }

  /// The rank's next instruction is ready, or waits for one of those that it follows.
  void queue_next_of(Rank rank) {
    if (order_[at(rank)].size() == lists_[at(rank)].size()) return;
    double start_s = rank_free_s_[at(rank)];
    for (const Done& before : precedence_.predecessors(next_of(rank))) {
      const auto end_s = end_s_.find(before);
      if (end_s == end_s_.end()) {
        waiting_[before].push_back(rank);
        return;
      }
      start_s = std::max(start_s, end_s->second);
    }
    ready_.emplace(start_s, rank);
  }

  const Plan& plan_;
  const std::vector<std::vector<Instruction>>& lists_;
  const Precedence precedence_;
  std::vector<std::vector<int>> order_;
  std::vector<double> rank_free_s_;
  std::map<Done, double> end_s_;
  std::map<Done, std::vector<Rank>> waiting_;  // whose next instruction waits for this one
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
};

}  // namespace

std::vector<std::vector<int>> linear_order(const Plan& plan, const Figure& figure) {
  return FreeRun(plan, figure).order();
}

std::vector<int> stages_before(const Plan& plan, const std::vector<Position>& positions) {
  return Precedence(plan, positions).before();
}

}  // namespace sluice
