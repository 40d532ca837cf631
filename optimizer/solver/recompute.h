#pragma once

#include <vector>

#include "core/worker_cost.h"

namespace sluice {

/// Layers that a worker runs forward again before their backward, so that it need not
/// keep what they make from the forward (or, where the forward is elsewhere, receive it).
struct Recomputation {
  std::vector<LayerId> layers;  ///< ascending
  double price = 0;             ///< WorkerCost::price with them; infinite: none found that fits
  double lower_bound = 0;       ///< no set costs less
  [[nodiscard]] bool proven() const { return price <= lower_bound; }
};

/// Steps that best_recomputation() takes by default: enough to prove the best of all sets of 14 layers.
inline constexpr int kRecomputationSteps = 1 << 15;

/// The set of least price among the layers whose backward(-input) the worker runs: branch and bound.
/// @param tally  a worker that recomputes nothing; as before afterwards
/// @param steps  after so many, the best so far
[[nodiscard]] Recomputation best_recomputation(WorkerTally& tally, const WorkerCost& cost, const Seat& seat,
                                               const RankSpec& rank, int steps = kRecomputationSteps);

/// No recomputation makes a worker with this load (without recompute) cheaper; infinite: none makes it fit. In constant
/// time.
[[nodiscard]] double recomputation_floor(const WorkerCost& cost, WorkerLoad load, const Seat& seat,
                                         const RankSpec& rank);

}  // namespace sluice
