#pragma once

#include <cstdint>
#include <span>

#include "core/cluster.h"
#include "core/group.h"

namespace sluice {

/// How long one collective took, until its last member was done.
struct CollectiveSample {
  Group group;
  Route route;
  std::int64_t bytes = 0;  ///< as in collective_time()
  double seconds = 0;
};

/// The latencies and bandwidths with which collective_time() tells an algorithm's own times best (after Nuriyev,
/// Rico-Gallego, Lastovetsky 2022): the least sum of |predicted - measured| / the larger of both, so that small and
/// large payloads count alike and a wild sample counts for no more than another. collective_time() is the length of a
/// critical path, linear in latencies and seconds a byte as long as the path is the same: each round takes its
/// coefficients at the last figures and solves least squares, weighted by the errors left (Schlossmacher 1973), until
/// the sum falls no further. A figure that no path depends on stays the link's of `cluster`, and what the samples do
/// not tell apart (latency and bandwidth, of messages of one size) differs from the link's by as little as it may, so
/// that other sizes are told as well. No latency falls below half the link's, and where messages are as large as
/// segments (kLeastSegment) no bandwidth exceeds the link's, or else payloads that a rate limiter lets pass would make
/// segments cost nothing.
/// @param samples  all of this collective and algorithm, with seconds above 0
/// @throws Error (runtime fault) otherwise, or if there are none.
[[nodiscard]] AlgorithmCost fit_algorithm(CollectiveKind kind, Algorithm algorithm,
                                          std::span<const CollectiveSample> samples, const Cluster& cluster);

}  // namespace sluice
