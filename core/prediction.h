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

/// Program "step". Of an asynchronous plan one run of steady in the steady state: fill, n runs and drain are compared
/// with fill, n + r runs and drain, where n M is at least twice the number of positions (and all runs that leave
/// something out are among them) and r M at least that number, since as many micro-batches are in flight; what comes on
/// top, over r, is one run's time and traffic. The timeline is that of the last but r run.
/// @param plan  must have passed verify()
/// @throws as simulate()
[[nodiscard]] Prediction predict_step(const Plan& plan);

}  // namespace sluice
