#include "optimizer/planner/candidates.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  /// No more than there are works to share out.
  [[nodiscard]] int most_workers() const {
    const std::size_t works = 2 * request_.profile.model.layers.size();
    return static_cast<int>(std::min(request_.cluster.ranks.size(), works));
  }

  /// Adds the best partitions for each number of workers; returns the least price.
  double best_of_each(const Cluster& cluster, bool compute_only) {
    const PartitionCost cost(request_.profile, cluster, request_.schedule, request_.microbatches, compute_only);
    double least = kInfinity;
    for (int workers = most_workers(); workers >= request_.least_workers; --workers) {
      const auto joint = best(cost, workers, Cuts::joint, kInfinity);
      if (joint) add(joint->partition);
      const double joint_price = joint ? joint->price : kInfinity;
      least = std::min(least, joint_price);
      if (request_.cuts == Cuts::joint) continue;
      const auto independent = best(cost, workers, Cuts::independent, joint_price);
      if (!independent) continue;
      add(independent->partition);
      least = std::min(least, independent->price);
    }
    return least;
  }

  /// Nothing unless its price is below `limit`.
  [[nodiscard]] std::optional<PartitionSolution> best(const PartitionCost& cost, int workers, Cuts cuts,
                                                      double limit) const {
    const BottleneckObjective objective(cost, workers, cuts);
    if (request_.method == Method::dp) return solve_dp(objective, cuts, limit);
    auto solution = solve_exhaustively(objective, cuts);
    return solution && solution->price < limit ? solution : std::nullopt;
  }

  void add_least_full() {
    const PartitionCost cost(request_.profile, request_.cluster, request_.schedule, request_.microbatches,
                             request_.compute_only);
    for (int workers = most_workers(); workers >= request_.least_workers; --workers)
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
