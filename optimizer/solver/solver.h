#pragma once

#include <limits>
#include <optional>
#include <string>

#include "optimizer/schedule/partition.h"
#include "optimizer/solver/objective.h"

namespace sluice {

struct PartitionSolution {
  Partition partition;  ///< one interval pair per rank of the cluster, empty for ranks without work
  int workers = 0;      ///< ranks with work
  double price = std::numeric_limits<double>::infinity();
};

/// The best partition over exactly objective.workers() workers that have work, below
/// `limit`; nothing if there is none. Exact, by dynamic programming over
/// (forward prefix, backward prefix, workers used, rank).
[[nodiscard]] std::optional<PartitionSolution> solve_dp(const Objective& objective, Cuts cuts,
                                                        double limit = std::numeric_limits<double>::infinity());

/// The same by trying every partition: the oracle for tiny cases.
/// @throws Error (infeasible) when there are too many to try.
[[nodiscard]] std::optional<PartitionSolution> solve_exhaustively(const Objective& objective, Cuts cuts);

/// Largest price over the workers of a partition.
[[nodiscard]] double price(const Objective& objective, const Partition& partition);

/// The busiest worker's compute or link, memory limits of cost.cluster() included [s per micro-batch].
[[nodiscard]] double bottleneck_s(const PartitionCost& cost, const Partition& partition);

/// Worker k's layers.
[[nodiscard]] Share share_of(const Partition& partition, int worker);

/// Workers that have any work.
[[nodiscard]] int used_workers(const Partition& partition);

}  // namespace sluice
