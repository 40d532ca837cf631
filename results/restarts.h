#pragma once

#include <optional>
#include <string>

#include "core/storage/results_file.h"

/// What a report says about interruptions, and about what guards against them.
namespace sluice {

struct CheckpointFigures {
  std::int64_t written = 0;
  std::int64_t failed = 0;
  std::int64_t last_step = 0;  ///< of those written
  std::int64_t bytes = 0;      ///< of one, the median
  double stall_median_s = 0;   ///< for which training stood still, on the slowest rank
  double stall_total_s = 0;
  double stall_share = 0;     ///< of the time of all steps; 0 if none was recorded
  double write_median_s = 0;  ///< from then until one was whole on disk
};

/// None if the run wrote none and did not try.
[[nodiscard]] std::optional<CheckpointFigures> checkpoint_figures(const RunTables& tables);

/// A row for each attempt; empty if there was only one.
[[nodiscard]] std::string restarts_table(const RunResults& results);

/// Empty if there are none.
[[nodiscard]] std::string checkpoints_table(const RunTables& tables);

}  // namespace sluice
