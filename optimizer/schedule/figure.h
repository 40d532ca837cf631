#pragma once

#include <algorithm>
#include <vector>

#include "core/index.h"
#include "core/plan.h"
#include "optimizer/schedule/positions.h"

namespace sluice {

/// A schedule before lowering adds loads and communication: what each rank
/// computes and updates, in order. Updates stand at the ends of the lists.
struct Figure {
  std::vector<Position> positions;
  std::vector<std::vector<Instruction>> ranks;
};

/// Lets a generator speak of positions; owner maps do the rest. Every call appends to the list of the rank that owns
/// the position's stage for the micro-batch; where there is no such stage or micro-batch, to none.
class FigureWriter {
 public:
  FigureWriter(const Plan& plan, std::vector<Position> positions);

  void forward(int position, int microbatch);
  void backward(int position, int microbatch);  ///< or backward-input; recompute right before
  void backward_weight(int position, int microbatch);

  /// All positions at all of their owners, ascending.
  void updates();

  /// Delays that the positions leave open become the least that hold for what was written, replica by replica.
  [[nodiscard]] Figure take();

 private:
  /// Forwards at a position that something has not followed yet.
  struct Open {
    std::vector<int> now;  // by replica
    int most = 0;
    void begin(int replica) { most = std::max(most, ++now[at(replica)]); }
    void end(int replica) { --now[at(replica)]; }
  };

  [[nodiscard]] bool exists(int microbatch) const { return 0 <= microbatch && microbatch < plan_.microbatches; }
  void run(int stage, int microbatch);
  void update(int stage);

  const Plan& plan_;
  Figure figure_;
  int replicas_ = 1;                                   // the most owners of a stage
  std::vector<Open> before_backward_, before_weight_;  // by position
};

}  // namespace sluice
