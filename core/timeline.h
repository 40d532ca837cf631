#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// Payload bytes per link class, indexed by LinkKind.
using LinkBytes = std::array<std::int64_t, 2>;

/// Start and end of one instruction [ns], on a steady clock that starts at the step's begin.
struct InstructionTime {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  LinkBytes sent_bytes{};  ///< of a wait: by this rank in the collective that it ends
  bool operator==(const InstructionTime&) const = default;
};

struct RankTimeline {
  std::vector<InstructionTime> instructions;  ///< one per instruction of the rank's list
  LinkBytes sent_bytes{};
  LinkBytes received_bytes{};
  std::int64_t peak_memory_bytes = 0;
  bool operator==(const RankTimeline&) const = default;
};

/// When each instruction of a program ran. Simulator and executor both return
/// one, so that predicted against measured is a join on (rank, instruction).
struct Timeline {
  std::vector<RankTimeline> ranks;
  bool operator==(const Timeline&) const = default;
};

/// Time that a rank spends in the computes of its list [ns].
[[nodiscard]] std::int64_t compute_ns(const RankTimeline& timeline, const std::vector<Instruction>& list);

/// Latest end of any instruction [ns].
[[nodiscard]] std::int64_t makespan_ns(const Timeline& timeline);

/// 1 - compute time / (makespan x ranks that compute at all): the idle share.
[[nodiscard]] double bubble_fraction(const Timeline& timeline, const Program& program);

}  // namespace sluice
