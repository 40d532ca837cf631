#pragma once

#include <cstdint>
#include <span>

#include "core/cluster.h"

namespace sluice {

/// How long one message of `bytes` took.
struct LinkSample {
  std::int64_t bytes = 0;
  double seconds = 0;
};

/// Figures of a link and how well they tell the samples: |predicted - measured| / measured.
struct LinkFit {
  LinkClass link;
  double median_error = 0;
  double largest_error = 0;
};

/// Latency is the median time of small messages (up to 64 times the smallest),
/// bandwidth the median of bytes / (time - latency) of large ones (from 1/16 of the
/// largest). Hockney's line (1994) holds at its ends only: in between MPI changes
/// its protocol and rate limiters let a burst pass, and a regression over all sizes
/// lets that decide both figures. What the middle sizes lose is in the errors.
/// Large messages that take no longer than small ones give an infinite bandwidth.
/// @param samples  of sizes that differ by more than a factor of 1024, all above 0, as are the times
/// @throws Error (runtime fault) otherwise.
[[nodiscard]] LinkFit fit_link(std::span<const LinkSample> samples);

}  // namespace sluice
