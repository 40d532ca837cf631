#pragma once

#include <limits>
#include <string>
#include <vector>

#include "optimizer/solver/solver.h"

namespace sluice {

enum class Method { dp, exhaustive };
[[nodiscard]] const char* to_string(Method method);

struct SearchRequest {
  const Profile& profile;
  const Cluster& cluster;
  std::string schedule;
  int microbatches = 1;
  Cuts cuts = Cuts::independent;
  Method method = Method::dp;
  bool compute_only = false;
  int least_workers = 1;  ///< equal to the ranks if every rank is to have work
};

/// Partitions worth building; the plans built from them decide.
struct Candidates {
  std::vector<Partition> partitions;  ///< without ranks past the last used one; all different
  /// The least bottleneck of all partitions with the requested cuts that fit memory
  /// by the safe count of PartitionCost; infinite if none does.
  double optimum_s = std::numeric_limits<double>::infinity();
  /// The same without memory limits: no plan is better.
  double unlimited_optimum_s = 0;
};

/// For each number of workers the best joint partition, and the best independent
/// one if it is better; the same without traffic and without memory limits, since
/// the makespan may like those better, or they may fit after all; under memory
/// limits also those whose fullest rank is least full.
[[nodiscard]] Candidates find_candidates(const SearchRequest& request);

/// Without the ranks past the last used one.
[[nodiscard]] Partition trimmed(Partition partition);

}  // namespace sluice
