#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/storage/results_file.h"
#include "core/timeline.h"

namespace sluice {

/// A step as text, one line a rank and time to the right. A cell shows what runs
/// at its middle: 0-9 forward of the micro-batch with that last digit, a-z
/// backward (or backward-input) of micro-batches 0 to 25 and so on, W
/// backward-weight and R recompute of any, U weight update, = loads and starts of
/// collectives, . waiting or nothing.
/// @param shift_ns  begin of each rank's step on a common clock; empty: all alike
[[nodiscard]] std::string picture(const Timeline& timeline, const Program& program,
                                  const std::vector<std::int64_t>& shift_ns = {}, int columns = 96);

/// A measured step in which every rank recorded its whole list.
struct MeasuredStep {
  std::int64_t step = 0;
  Timeline timeline;
  std::vector<std::int64_t> shift_ns;  ///< from 0; empty if the clocks of the ranks are not known
};

/// The last such step.
[[nodiscard]] std::optional<MeasuredStep> last_measured_step(const RunResults& results);

}  // namespace sluice
