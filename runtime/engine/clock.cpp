#include "runtime/engine/clock.h"

#include <algorithm>
#include <array>
#include <limits>

namespace sluice {

ClockOffset estimate_clock_offset(Communicator& comm, const StepClock& clock, int rounds) {
  // Bounds of rank 0's clock minus this one.
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  double last_begin = 0;
  double last_end = 0;
  for (int round = 0; round <= rounds; ++round) {
    const double begin = static_cast<double>(clock.now_ns());
    const std::array<double, 2> mine{begin, last_end};
    const std::vector<double> all = comm.all_gather(mine);  // rank 0's come first: this begin, the last round's end
    const double end = static_cast<double>(clock.now_ns());
    lower = std::max(lower, all[0] - end);
    if (round > 0) upper = std::min(upper, all[1] - last_begin);
    last_begin = begin;
    last_end = end;
  }
  if (comm.rank() == 0) return {};
  return {.rank = comm.rank(),
          .offset_ns = static_cast<std::int64_t>((lower + upper) / 2),
          .uncertainty_ns = static_cast<std::int64_t>((upper - lower) / 2)};
}

}  // namespace sluice
