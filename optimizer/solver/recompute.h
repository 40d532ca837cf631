#pragma once

#include <vector>

#include "core/worker_cost.h"

namespace sluice {

/// Layers that a worker runs forward again before their backward, so that it need not
/// keep what they make from the forward (or, where the forward is elsewhere, receive it).
struct Recomputation {
  std::vector<LayerId> layers;  ///< ascending
  double price = 0;             ///< WorkerCost::price with them; infinite: none found that fits
  bool proven = true;           ///< no other set costs less
};

/// The set of least price among the layers whose backward(-input) the worker runs: branch and bound,
/// proven for up to 14 layers that matter, and beyond where the bounds suffice.
/// @param tally  a worker that recomputes nothing; as before afterwards
[[nodiscard]] Recomputation best_recomputation(WorkerTally& tally, const WorkerCost& cost, const Seat& seat,
                                               const RankSpec& rank);

/// No recomputation makes a worker with this load (without recompute) cheaper; infinite: none makes it fit. In constant
/// time.
[[nodiscard]] double recomputation_floor(const WorkerCost& cost, WorkerLoad load, const Seat& seat,
                                         const RankSpec& rank);

}  // namespace sluice
