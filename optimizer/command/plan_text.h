#pragma once

#include <string>

#include "core/plan.h"

/// Plans as people read them; `sluice optimize` and `sluice show` share these.
namespace sluice {

/// Schedule, micro-batches and ranks.
[[nodiscard]] std::string headline(const Plan& plan);

/// The chosen plan and the next best ones, a line each, with what sets them apart; empty for a partition
/// without a schedule, which has neither step nor memory.
[[nodiscard]] std::string candidates_table(const Plan& plan);

/// Node by node and worker by worker: which layers it has (each work a bar over the
/// model's layers), how busy, how full, and what crosses its border.
[[nodiscard]] std::string drawing(const Plan& plan);

/// Why the plan was chosen over the next best, and how good it is proven to be.
[[nodiscard]] std::string reasons(const Plan& plan);

}  // namespace sluice
