#pragma once

#include "core/timeline.h"

namespace sluice {

/// One training step, as simulated.
struct Prediction {
  double step_s = 0;
  double bubble = 0;  ///< idle share of the ranks that compute at all
  /// Of training_program(). An asynchronous one overlaps with those before and after it: its clock starts with the
  /// first instruction of any rank, and it lasts longer than step_s.
  Timeline timeline;
};

/// Program "step". Of an asynchronous plan one run of steady in the steady state: fill, n + r runs and drain are
/// simulated, where n M is at least twice the number of positions (and all runs that leave something out are among the
/// n) and r M at least that number, since as many micro-batches are in flight. A run takes what the slowest rank needs
/// for the last r, over r: a rank that is slower by little holds up the others, and the end of the drain, only after
/// many runs. The timeline is that of the n-th run; its traffic is what r runs more than n add, over r.
/// @param plan  must have passed verify()
/// @throws as simulate()
[[nodiscard]] Prediction predict_step(const Plan& plan);

}  // namespace sluice
