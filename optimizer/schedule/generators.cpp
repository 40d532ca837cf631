#include "optimizer/schedule/generators.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Lets a generator speak of positions in the pipeline; owner maps do the rest.
class ListWriter {
 public:
  ListWriter(const std::vector<Stage>& stages, int ranks) : stages_(stages), lists_(at(ranks)) {
    for (const Stage& stage : stages) depth_ = std::max(depth_, stage.index + 1);
    forward_at_.assign(at(depth_), kNone);
    backward_at_.assign(at(depth_), kNone);
    for (int s = 0; s < std::ssize(stages); ++s)
      (stages[at(s)].work == Work::forward ? forward_at_ : backward_at_)[at(stages[at(s)].index)] = s;
  }

  [[nodiscard]] int depth() const { return depth_; }  ///< K
  void forward(int position, int microbatch) { write(Op::forward, forward_at_[at(position)], microbatch); }
  void backward(int position, int microbatch) { write(Op::backward, backward_at_[at(position)], microbatch); }
  void optimizer_step(int position) {
    const int stage = backward_at_[at(position)];
    if (stage == kNone) return;
    for (const Rank rank : stages_[at(stage)].owners)
      lists_[at(rank)].push_back({.op = Op::optimizer_step, .stage = stage});
  }
  [[nodiscard]] ComputeLists take() { return std::move(lists_); }

 private:
  void write(Op op, int stage, int microbatch) {
    if (stage == kNone) return;
    lists_[at(owner(stages_[at(stage)], microbatch))].push_back({.op = op, .stage = stage, .microbatch = microbatch});
  }

  const std::vector<Stage>& stages_;
  int depth_ = 0;
  std::vector<int> forward_at_, backward_at_;  // stage by position
  ComputeLists lists_;
};

void sequential(ListWriter& list, int microbatches) {
  if (list.depth() > 1)
    throw infeasible(text("schedule sequential runs on one worker, but the cuts make ", list.depth(),
                          ": use gpipe or 1f1b, or one rank"));
  for (int m = 0; m < microbatches; ++m) {
    list.forward(0, m);
    list.backward(0, m);
  }
}

void gpipe(ListWriter& list, int microbatches) {
  for (int k = 0; k < list.depth(); ++k)
    for (int m = 0; m < microbatches; ++m) list.forward(k, m);
  for (int k = 0; k < list.depth(); ++k)
    for (int m = 0; m < microbatches; ++m) list.backward(k, m);
}

void one_forward_one_backward(ListWriter& list, int microbatches) {
  for (int k = 0; k < list.depth(); ++k) {
    const int warmup = std::min(list.depth() - 1 - k, microbatches);
    for (int m = 0; m < warmup; ++m) list.forward(k, m);
    for (int m = warmup; m < microbatches; ++m) {
      list.forward(k, m);
      list.backward(k, m - warmup);
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) list.backward(k, m);
  }
}

}  // namespace

ComputeLists generate_step(const std::string& schedule, const std::vector<Stage>& stages, int ranks, int microbatches) {
  ListWriter list(stages, ranks);
  if (schedule == "sequential")
    sequential(list, microbatches);
  else if (schedule == "gpipe")
    gpipe(list, microbatches);
  else if (schedule == "1f1b")
    one_forward_one_backward(list, microbatches);
  else
    throw bad_input(text("unknown schedule '", schedule, "', expected sequential, gpipe or 1f1b"));
  for (int k = 0; k < list.depth(); ++k) list.optimizer_step(k);
  return list.take();
}

ComputeLists generate_evaluate(const std::vector<Stage>& stages, int ranks, int microbatches) {
  ListWriter list(stages, ranks);
  for (int k = 0; k < list.depth(); ++k)
    for (int m = 0; m < microbatches; ++m) list.forward(k, m);
  return list.take();
}

}  // namespace sluice
