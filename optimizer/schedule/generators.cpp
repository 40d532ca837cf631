#include "optimizer/schedule/generators.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/schedule.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Lets a generator speak of stages; owner maps do the rest.
class FigureWriter {
 public:
  FigureWriter(const Plan& plan, std::vector<Position> positions)
      : plan_(plan), figure_{std::move(positions), std::vector<std::vector<Instruction>>(plan.cluster.ranks.size())} {}

  /// Nothing if there is no such stage or micro-batch.
  void run(int stage, int microbatch) {
    if (stage == kNone || microbatch < 0 || microbatch >= plan_.microbatches) return;
    const Stage& row = plan_.stages[at(stage)];
    figure_.ranks[at(owner(row, microbatch))].push_back(
        {.op = op_of(row.work), .stage = stage, .microbatch = microbatch});
  }

  void update(int stage) {
    if (stage == kNone || !updates_weights(plan_.stages[at(stage)].work)) return;
    for (const Rank rank : plan_.stages[at(stage)].owners)
      figure_.ranks[at(rank)].push_back({.op = Op::optimizer_step, .stage = stage});
  }

  [[nodiscard]] Figure take() { return std::move(figure_); }

 private:
  const Plan& plan_;
  Figure figure_;
};

Figure generate(const Plan& plan, const std::vector<Position>& positions) {
  int last_slot = plan.microbatches - 1;
  for (const Position& position : positions)
    last_slot = std::max(last_slot, plan.microbatches - 1 + std::max(position.backward_delay, position.weight_delay));
  FigureWriter write(plan, positions);
  for (int slot = 0; slot <= last_slot; ++slot) {
    for (const Position& position : positions) write.run(position.forward, slot);
    for (auto position = positions.rbegin(); position != positions.rend(); ++position) {
      write.run(position->recompute, slot - position->backward_delay);
      write.run(position->backward, slot - position->backward_delay);
    }
    for (const Position& position : positions) write.run(position.backward_weight, slot - position.weight_delay);
  }
  for (const Position& position : positions) {
    write.update(position.backward);
    write.update(position.backward_weight);
  }
  return write.take();
}

}  // namespace

Figure generate_step(const Plan& plan) {
  (void)schedule_named(plan.schedule);
  const std::vector<Position> positions = step_positions(plan);
  if (plan.schedule == "sequential" && positions.size() > 1)
    throw infeasible(text("schedule sequential runs on one worker, but the cuts make ", positions.size(),
                          ": use gpipe or 1f1b, or one rank"));
  return generate(plan, positions);
}

Figure generate_evaluate(const Plan& plan) { return generate(plan, evaluate_positions(plan)); }

}  // namespace sluice
