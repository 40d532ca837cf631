#include "optimizer/schedule/figure.h"

namespace sluice {

FigureWriter::FigureWriter(const Plan& plan, std::vector<Position> positions)
    : plan_(plan), figure_{std::move(positions), std::vector<std::vector<Instruction>>(plan.cluster.ranks.size())} {
  for (const Stage& stage : plan.stages) replicas_ = std::max(replicas_, static_cast<int>(stage.owners.size()));
  before_backward_.resize(figure_.positions.size(), {.now = std::vector<int>(at(replicas_))});
  before_weight_ = before_backward_;
}

void FigureWriter::forward(int position, int microbatch) {
  if (!exists(microbatch)) return;
  run(figure_.positions[at(position)].forward, microbatch);
  before_backward_[at(position)].begin(microbatch % replicas_);
  before_weight_[at(position)].begin(microbatch % replicas_);
}

void FigureWriter::backward(int position, int microbatch) {
  if (!exists(microbatch)) return;
  run(figure_.positions[at(position)].recompute, microbatch);
  run(figure_.positions[at(position)].backward, microbatch);
  before_backward_[at(position)].end(microbatch % replicas_);
}

void FigureWriter::backward_weight(int position, int microbatch) {
  if (!exists(microbatch)) return;
  run(figure_.positions[at(position)].backward_weight, microbatch);
  before_weight_[at(position)].end(microbatch % replicas_);
}

void FigureWriter::updates() {
  for (const Position& position : figure_.positions) {
    update(position.backward);
    update(position.backward_weight);
  }
}

Figure FigureWriter::take() {
  for (int k = 0; k < std::ssize(figure_.positions); ++k) {
    Position& position = figure_.positions[at(k)];
    if (position.backward_delay != kNone) continue;
    position.backward_delay = std::max(1, replicas_ * before_backward_[at(k)].most) - 1;
    position.weight_delay = std::max(1, replicas_ * before_weight_[at(k)].most) - 1;
    position.ordered_by_rank = true;
  }
  return std::move(figure_);
}

void FigureWriter::run(int stage, int microbatch) {
  if (stage == kNone) return;
  const Stage& row = plan_.stages[at(stage)];
  figure_.ranks[at(owner(row, microbatch))].push_back(
      {.op = op_of(row.work), .stage = stage, .microbatch = microbatch});
}

void FigureWriter::update(int stage) {
  if (stage == kNone || !updates_weights(plan_.stages[at(stage)].work)) return;
  for (const Rank rank : plan_.stages[at(stage)].owners)
    figure_.ranks[at(rank)].push_back({.op = Op::optimizer_step, .stage = stage});
}

}  // namespace sluice
