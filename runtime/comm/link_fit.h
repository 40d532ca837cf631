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

/// Least squares of the relative errors of message_time (Hockney 1994), so that 8
/// bytes weigh as much as 16 MiB. Latency is never below 0; times that do not grow
/// with the size give an infinite bandwidth.
/// @param samples  at least two sizes, all times above 0
/// @throws Error (runtime fault) otherwise.
[[nodiscard]] LinkFit fit_link(std::span<const LinkSample> samples);

}  // namespace sluice
