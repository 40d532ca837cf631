#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/stage_pricing.h"

namespace sluice {

/// Whether a worker's backward, and its backward-weight, have the layers of its forward.
enum class Cuts : std::uint8_t {
  joint,        ///< one cut vector
  independent,  ///< forward and backward apart
  three,        ///< forward, backward-input and backward-weight apart
};
[[nodiscard]] const char* to_string(Cuts cuts);

/// The plans among which a solver looks. A worker is a group of ranks (its replicas)
/// with a set of layers for each work, any of them may be empty; the workers form a pipeline, and the k-th
/// has the k-th set of every work. A rank belongs to one worker at most.
/// Replicas are in the order of sort_replicas(): the fastest take the micro-batches that are left over.
struct SearchSpace {
  Cuts cuts = Cuts::independent;
  int most_replicas = 1;   ///< of a worker
  bool recompute = false;  ///< layers may run forward again before their backward
  bool ideals = false;     ///< a worker's layers are a difference of ideals of the DAG, else an interval of the order
  bool free_backward = false;  ///< backward sets may be dealt to the workers in any order
  bool exactly = false;        ///< every rank has some work
};

struct Problem {
  const Profile& profile;
  const Cluster& cluster;
  Pricing pricing;
  SearchSpace space;
  Rank data_reader = kNone;  ///< Plan::data_reader: solvers leave out what it sends
};

/// The works that are dealt out under such cuts: forward and backward, or forward and both halves of backward.
[[nodiscard]] std::vector<Work> works_of(Cuts cuts);

/// The order of a worker's replicas: by speed, the fastest first, then by node, then by number.
void sort_replicas(std::vector<Rank>& ranks, const Cluster& cluster);

/// The bottleneck() of the stages by loads_of().
[[nodiscard]] double price_of(const Problem& problem, const std::vector<Stage>& stages);

/// No plan costs less: all compute and updates, spread over all ranks as their speeds allow [s per micro-batch].
[[nodiscard]] double compute_bound(const Problem& problem);

/// When a solver has to come back with what it has.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

/// What a solver found and what it proved.
struct Solution {
  std::vector<Stage> stages;  ///< none: nothing found
  double price = kInfinity;   ///< of the stages, by the objective solved for
  double lower_bound = 0;     ///< no plan of the space costs less; infinite: there is none
  bool timed_out = false;
  [[nodiscard]] bool found() const { return !stages.empty(); }
};

/// Bounds and prices are sums taken in different orders: they are equal within this factor.
inline constexpr double kRounding = 1 + 1e-9;
/// Bounds that have to stay below a sum taken in another order are reduced by this factor.
inline constexpr double kSafely = 1 - 1e-12;

[[nodiscard]] inline bool is_optimal(const Solution& solution) {
  return solution.found() && solution.price <= solution.lower_bound * kRounding;
}

}  // namespace sluice
