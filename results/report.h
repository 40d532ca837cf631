#pragma once

#include <string>

#include "core/storage/results_file.h"

namespace sluice {

/// What `sluice report` prints: loss and accuracy, step time, images/s, shares
/// of each rank's time, bytes per link class, predicted beside measured per
/// stage and in total, restarts and what checkpoints cost where there were any,
/// flags, and a picture of a step.
[[nodiscard]] std::string report_text(const RunResults& results);

/// The same figures as one JSON object, without the pictures. Numbers that are
/// not finite, or were not measured, become null.
[[nodiscard]] std::string report_json(const RunResults& results);

}  // namespace sluice
