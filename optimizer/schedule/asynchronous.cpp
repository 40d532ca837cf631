#include "optimizer/schedule/asynchronous.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/asynchronous.h"
#include "core/division.h"
#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/schedule/lowering.h"
#include "optimizer/schedule/positions.h"

namespace sluice {
namespace {

void require_one_position_a_rank(const Plan& plan) {
  std::map<int, Rank> owner_of;
  std::set<Rank> owners;
  for (const Stage& stage : plan.stages) {
    if (stage.owners.size() > 1)
      throw infeasible(
          text("schedule ", plan.schedule, " knows no replicas: leave --worker-replicas out, or use 1f1b"));
    if (stage.work != Work::forward && stage.work != Work::backward)
      throw infeasible(text("schedule ", plan.schedule, " knows no ", to_string(stage.work),
                            ": use whole backwards without recomputation (no --weight-cuts), or 1f1b"));
    if (!owner_of.try_emplace(stage.index, stage.owners[0]).second && owner_of[stage.index] != stage.owners[0])
      throw infeasible(text("schedule ", plan.schedule, " has forward and backward of a position on one rank, but ",
                            "position ", stage.index, " has ranks ", owner_of[stage.index], " and ", stage.owners[0],
                            ": give it one, or use 1f1b"));
  }
  for (const auto& [index, rank] : owner_of)
    if (!owners.insert(rank).second)
      throw infeasible(text("schedule ", plan.schedule, " has one position a rank, but rank ", rank,
                            " has several: give it one, or use 1f1b"));
  if (plan.schedule == "pipedream-2bw" && plan.microbatches < std::ssize(owner_of))
    throw infeasible(text("schedule pipedream-2bw needs at least as many micro-batches as positions, but has ",
                          plan.microbatches, " for ", owner_of.size(), ": use more micro-batches, or pipedream"));
}

/// Slots that communication reaches over: a send is waited for up to two later, a receive starts up to
/// receive_ahead + 2 earlier, or 3 of what one rank reads for all, and weights are made and used up to K apart.
int reach(const Plan& plan, int positions) { return positions + plan.receive_ahead + 4; }

int round_up(int value, int unit) { return divided_up(value, unit) * unit; }

class EndlessWriter {
 public:
  explicit EndlessWriter(const Plan& plan)
      : plan_(plan), versions_(plan), positions_(step_positions(plan)), count_(static_cast<int>(positions_.size())) {
    const int span = reach(plan, count_);
    endless_.base = round_up(span, plan.microbatches) + plan.microbatches;  // pipedream-2bw uses weights that late
    slots_ = endless_.base + 2 * plan.microbatches + round_up(span, plan.microbatches) + 2 * span;
    endless_.ranks.resize(plan.cluster.ranks.size());
    for (auto* lists : {&endless_.order, &endless_.periods}) lists->resize(plan.cluster.ranks.size());
  }

  EndlessFigure write() {
    for (int slot = 0; slot < slots_; ++slot) {
      for (int k = 0; k < count_; ++k) begin_period(k, slot);
      for (const Position& position : positions_) run(position.forward, slot);
      for (int k = count_ - 1; k >= 0; --k) {
        run(positions_[at(k)].backward, slot - behind(k));
        update(positions_[at(k)].backward, slot - behind(k));
      }
    }
    return std::move(endless_);
  }

 private:
  [[nodiscard]] int behind(int k) const { return count_ - 1 - k; }

  void begin_period(int k, int slot) {
    const int microbatch = slot - behind(k) - endless_.base;
    const Position& position = positions_[at(k)];
    const int stage = position.forward != kNone ? position.forward : position.backward;
    const Rank rank = plan_.stages[at(stage)].owners[0];
    if (microbatch >= 0 && microbatch % plan_.microbatches == 0)
      endless_.periods[at(rank)].push_back(static_cast<int>(endless_.ranks[at(rank)].size()));
  }

  void run(int stage, int microbatch) {
    if (stage == kNone || microbatch < 0) return;
    append({.op = op_of(plan_.stages[at(stage)].work),
            .stage = stage,
            .microbatch = microbatch,
            .version = versions_.version(stage, microbatch - endless_.base)});
  }

  void update(int stage, int microbatch) {
    const int batch = versions_.microbatches_per_update();
    if (stage == kNone || microbatch < 0 || (microbatch + 1) % batch != 0) return;
    append({.op = Op::optimizer_step,
            .stage = stage,
            .microbatch = microbatch,
            .version = (microbatch + 1 - endless_.base) / batch});
  }

  void append(const Instruction& instruction) {
    const Rank rank = plan_.stages[at(instruction.stage)].owners[0];
    endless_.ranks[at(rank)].push_back(instruction);
    endless_.order[at(rank)].push_back(number_++);
  }

  const Plan& plan_;
  const WeightVersions versions_;
  const std::vector<Position> positions_;
  const int count_;
  int slots_ = 0;
  int number_ = 0;
  EndlessFigure endless_;
};

/// Instructions of a rank's list as they stand in a program that begins with period `n`.
std::vector<Instruction> relative(const Plan& plan, std::span<const Instruction> part, int base, int n) {
  const int versions = n * versions_per_steady(plan);
  std::vector<Instruction> list(part.begin(), part.end());
  for (Instruction& instruction : list) {
    instruction.microbatch -= base + n * plan.microbatches;
    if (has_version(plan, instruction)) instruction.version -= versions;
  }
  return list;
}

/// Cuts one rank's part of the programs.
class Cutter {
 public:
  Cutter(const Plan& plan, const LoweredRank& lowered, int base) : plan_(plan), lowered_(lowered), base_(base) {}

  [[nodiscard]] std::vector<Instruction> fill() const {
    std::vector<Instruction> list = relative(plan_, before(0), base_, 0);
    std::erase_if(list, [](const Instruction& instruction) { return instruction.microbatch < 0; });
    return list;
  }

  [[nodiscard]] std::vector<Instruction> steady(int n) const {
    return relative(plan_, before(n + 1).subspan(before(n).size()), base_, n);
  }

  /// @param end  the first micro-batch that is not run, counted from the drain's base
  [[nodiscard]] std::vector<Instruction> drain(int end) const {
    std::vector<Instruction> list = relative(plan_, std::span(lowered_.list).subspan(before(0).size()), base_, 0);
    std::erase_if(list, [&](const Instruction& instruction) { return instruction.microbatch >= end; });
    return list;
  }

 private:
  /// All up to the period.
  [[nodiscard]] std::span<const Instruction> before(int n) const {
    if (lowered_.marks.empty()) return {};
    return std::span(lowered_.list).first(at(lowered_.marks[at(n)]));
  }

  const Plan& plan_;
  const LoweredRank& lowered_;
  const int base_;
};

}  // namespace

EndlessFigure generate_asynchronous(const Plan& plan) {
  require_one_position_a_rank(plan);
  return EndlessWriter(plan).write();
}

void lower_asynchronous(Plan& plan) {
  const EndlessFigure endless = generate_asynchronous(plan);
  const std::vector<LoweredRank> lowered = lower(plan, endless);
  const auto each = [&](const char* name, const auto& part) {
    Program program{.name = name, .ranks = {}};
    for (const LoweredRank& rank : lowered) program.ranks.push_back(part(Cutter(plan, rank, endless.base)));
    return program;
  };
  plan.programs.push_back(each("fill", [](const Cutter& rank) { return rank.fill(); }));
  plan.programs.push_back(each("steady", [](const Cutter& rank) { return rank.steady(0); }));
  if (plan.programs.back() != each("steady", [](const Cutter& rank) { return rank.steady(1); }))
    throw runtime_fault("two runs of the steady program differ, which is a fault of this program");
  const int end = steadies_in_drain(plan) * plan.microbatches;
  plan.programs.push_back(each("drain", [&](const Cutter& rank) { return rank.drain(end); }));
}

}  // namespace sluice
