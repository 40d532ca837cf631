#pragma once

#include <chrono>
#include <cstdint>

#include "core/storage/results_file.h"
#include "runtime/comm/communicator.h"

namespace sluice {

/// Nanoseconds of the steady clock since it was made.
class StepClock {
 public:
  [[nodiscard]] std::int64_t now_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Compares this rank's clock with rank 0's over `rounds` all-gathers: none ends
/// anywhere before it has begun everywhere, so that each round bounds the offset
/// from both sides, and the tightest bounds stay. Collective.
[[nodiscard]] ClockOffset estimate_clock_offset(Communicator& comm, const StepClock& clock, int rounds = 20);

}  // namespace sluice
