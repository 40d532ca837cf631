#include "optimizer/planner/candidates.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

std::optional<Solution> solve(const Objective& objective, Cuts cuts, Method method, double limit) {
  if (method == Method::dp) return solve_dp(objective, cuts, limit);
  auto solution = solve_exhaustively(objective, cuts);
  return solution && solution->price < limit ? solution : std::nullopt;
}

class Search {
 public:
  explicit Search(const SearchRequest& request) : request_(request) {}

  Candidates run() {
    found_.optimum_s = best_of_each(request_.cluster, request_.compute_only);
    if (!request_.compute_only) (void)best_of_each(request_.cluster, true);
    found_.unlimited_optimum_s = found_.optimum_s;
    if (memory_is_limited(request_.cluster)) {
      found_.unlimited_optimum_s = best_of_each(with_unlimited_memory(request_.cluster), request_.compute_only);
      add_least_full();
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] int ranks() const { return static_cast<int>(request_.cluster.ranks.size()); }

  /// Adds the best partitions for each number of workers; returns the least price.
  double best_of_each(const Cluster& cluster, bool compute_only) {
    const PartitionCost cost(request_.profile, cluster, request_.schedule, request_.microbatches, compute_only);
    double least = std::numeric_limits<double>::infinity();
    for (int workers = ranks(); workers >= request_.least_workers; --workers) {
      const BottleneckObjective objective(cost, workers);
      const auto joint = solve(objective, Cuts::joint, request_.method, std::numeric_limits<double>::infinity());
      if (joint) add(joint->partition);
      const double joint_price = joint ? joint->price : std::numeric_limits<double>::infinity();
      least = std::min(least, joint_price);
      if (request_.cuts == Cuts::joint) continue;
      const auto independent = solve(objective, Cuts::independent, request_.method, joint_price);
      if (!independent) continue;
      add(independent->partition);
      least = std::min(least, independent->price);
    }
    return least;
  }

  void add_least_full() {
    const PartitionCost cost(request_.profile, request_.cluster, request_.schedule, request_.microbatches,
                             request_.compute_only);
    for (int workers = ranks(); workers >= request_.least_workers; --workers)
      if (const auto solution = solve_dp(MemoryObjective(cost, workers), Cuts::joint)) add(solution->partition);
  }

  void add(const Partition& partition) {
    const Partition candidate = trimmed(partition);
    std::vector<Partition>& known = found_.partitions;
    if (std::find(known.begin(), known.end(), candidate) == known.end()) known.push_back(candidate);
  }

  const SearchRequest& request_;
  Candidates found_;
};

}  // namespace

const char* to_string(Method method) { return method == Method::dp ? "dp" : "exhaustive"; }

Candidates find_candidates(const SearchRequest& request) { return Search(request).run(); }

Partition trimmed(Partition partition) {
  while (partition.workers() > 1 && share_of(partition, partition.workers() - 1).empty()) {
    partition.forward_bounds.pop_back();
    partition.backward_bounds.pop_back();
  }
  return partition;
}

}  // namespace sluice
