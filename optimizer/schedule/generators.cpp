#include "optimizer/schedule/generators.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Lets a generator speak of positions in the pipeline; owner maps do the rest.
class FigureWriter {
 public:
  FigureWriter(const std::vector<Stage>& stages, int ranks, const std::set<Work>& works)
      : stages_(stages), figure_(at(ranks)) {
    std::map<int, Position> by_index;
    for (int s = 0; s < std::ssize(stages); ++s)
      if (works.contains(stages[at(s)].work)) {
        Position& position = by_index[stages[at(s)].index];
        (stages[at(s)].work == Work::forward ? position.forward : position.backward) = s;
      }
    for (const auto& [index, position] : by_index) positions_.push_back(position);
  }

  [[nodiscard]] int depth() const { return static_cast<int>(positions_.size()); }  ///< K
  void forward(int k, int microbatch) { write(Op::forward, k, positions_[at(k)].forward, microbatch); }
  void backward(int k, int microbatch) { write(Op::backward, k, positions_[at(k)].backward, microbatch); }
  void optimizer_step(int k) {
    if (positions_[at(k)].backward != kNone) write(Op::optimizer_step, k, positions_[at(k)].backward, kNone);
  }
  [[nodiscard]] Figure take() { return std::move(figure_); }

 private:
  struct Position {
    int forward = kNone;  // stages; at least one of them is there
    int backward = kNone;
  };

  void write(Op op, int k, int stage, int microbatch) {
    const Position& position = positions_[at(k)];
    const int other = position.forward != kNone ? position.forward : position.backward;
    const Rank rank = stages_[at(stage != kNone ? stage : other)].owners.front();
    figure_[at(rank)].push_back({{.op = op, .stage = stage, .microbatch = microbatch}, k});
  }

  const std::vector<Stage>& stages_;
  std::vector<Position> positions_;
  Figure figure_;
};

void sequential(FigureWriter& write, int microbatches) {
  if (write.depth() > 1)
    throw infeasible(text("schedule sequential runs on one worker, but the cuts make ", write.depth(),
                          ": use gpipe or 1f1b, or one rank"));
  for (int m = 0; m < microbatches; ++m) {
    write.forward(0, m);
    write.backward(0, m);
  }
}

void gpipe(FigureWriter& write, int microbatches) {
  for (int k = 0; k < write.depth(); ++k)
    for (int m = 0; m < microbatches; ++m) write.forward(k, m);
  for (int k = 0; k < write.depth(); ++k)
    for (int m = 0; m < microbatches; ++m) write.backward(k, m);
}

void one_forward_one_backward(FigureWriter& write, int microbatches) {
  for (int k = 0; k < write.depth(); ++k) {
    const int warmup = std::min(write.depth() - 1 - k, microbatches);
    for (int m = 0; m < warmup; ++m) write.forward(k, m);
    for (int m = warmup; m < microbatches; ++m) {
      write.forward(k, m);
      write.backward(k, m - warmup);
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) write.backward(k, m);
  }
}

}  // namespace

Figure generate_step(const std::string& schedule, const std::vector<Stage>& stages, int ranks, int microbatches) {
  FigureWriter write(stages, ranks, {Work::forward, Work::backward});
  if (schedule == "sequential")
    sequential(write, microbatches);
  else if (schedule == "gpipe")
    gpipe(write, microbatches);
  else if (schedule == "1f1b")
    one_forward_one_backward(write, microbatches);
  else
    throw bad_input(text("unknown schedule '", schedule, "', expected sequential, gpipe or 1f1b"));
  for (int k = 0; k < write.depth(); ++k) write.optimizer_step(k);
  return write.take();
}

Figure generate_evaluate(const std::vector<Stage>& stages, int ranks, int microbatches) {
  FigureWriter write(stages, ranks, {Work::forward});
  one_forward_one_backward(write, microbatches);
  return write.take();
}

}  // namespace sluice
