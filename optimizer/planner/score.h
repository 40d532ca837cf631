#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "optimizer/schedule/schedule_text.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// The rank of a plan that needs most of its memory.
struct Fullest {
  Rank rank = 0;
  std::int64_t need_bytes = 0;
  std::int64_t limit_bytes = kUnlimitedMemory;
  [[nodiscard]] double fullness() const { return static_cast<double>(need_bytes) / static_cast<double>(limit_bytes); }
  [[nodiscard]] bool fits() const { return need_bytes <= limit_bytes; }
};

/// A solver's stages, built into a plan and judged by all that is not the solver:
/// memory_use() for memory, the verifier, loads_of() for the bottleneck, the simulator for the step.
struct Scored {
  Plan plan;  ///< with figures; verified, if it fits
  Fullest fullest;
};

/// Figures are filled in only if the plan fits.
/// @param text_of_schedule  of kFileSchedule, else null
/// @throws Error (runtime fault) if a plan that fits does not verify.
[[nodiscard]] Scored score(const Problem& problem, const std::vector<Stage>& stages,
                           const ScheduleText* text_of_schedule = nullptr);

/// "compute of rank 3", "link of rank 1", "NIC of node01".
[[nodiscard]] std::string to_string(const Bottleneck& bottleneck, const Cluster& cluster);

/// What the stages are called in PlanFigures: kind of cuts, positions, replicas.
[[nodiscard]] PlanFigures describe_stages(const std::vector<Stage>& stages);

}  // namespace sluice
