#pragma once

#include <cstdint>
#include <string>

#include "core/plan.h"
#include "core/storage/reader.h"
#include "core/storage/writer.h"

namespace sluice {

/// A plan of more instructions than this is studied by the simulator without a file.
inline constexpr std::int64_t kMostInstructions = 100'000'000;

/// Reads a file of schema sluice/plan, validates it and compares its digest.
/// @throws Error (bad input) naming file, dataset and value
[[nodiscard]] Plan read_plan(const std::string& path);

/// @throws Error (infeasible) if the plan has more than `most_instructions`,
///         (bad input) if the plan is not valid or the path cannot be written,
///         (runtime fault) if the disk is full
void write_plan(const std::string& path, const Plan& plan, const Provenance& provenance = {},
                std::int64_t most_instructions = kMostInstructions);

/// The same contents in a group of another file.
[[nodiscard]] Plan read_plan(const GroupReader& group);
void write_plan(const GroupWriter& group, const Plan& plan);

}  // namespace sluice
