#include "optimizer/planner/candidates.h"

#include <algorithm>

#include "core/index.h"
#include "optimizer/solver/pipedream_price.h"

namespace sluice {
namespace {

/// Half of the ranks, a quarter, ...: no number of ranks is more than a factor of two away.
std::vector<int> fewer_ranks(const Problem& problem) {
  std::vector<int> counts;
  if (problem.space.exactly) return counts;
  for (auto ranks = static_cast<int>(problem.cluster.ranks.size()) / 2; ranks >= 1; ranks /= 2) counts.push_back(ranks);
  return counts;
}

Cluster first_ranks(Cluster cluster, int count) {
  cluster.ranks.resize(at(count));
  return cluster;
}

/// The values that a narrower search space may have, the widest first.
std::vector<Cuts> narrower(Cuts cuts) {
  if (cuts == Cuts::three) return {Cuts::three, Cuts::independent, Cuts::joint};
  if (cuts == Cuts::independent) return {Cuts::independent, Cuts::joint};
  return {Cuts::joint};
}
std::vector<int> narrower_replicas(int most) { return most > 1 ? std::vector{most, 1} : std::vector{1}; }

class Collector {
 public:
  Collector(const Problem& problem, Deadline deadline) : problem_(problem), deadline_(deadline) {}

  std::vector<std::vector<Stage>> run(bool for_the_step) {
    add_narrower_spaces(problem_.cluster);
    add(pipedream_candidate(problem_));
    if (memory_is_limited(problem_.cluster)) {
      add_narrower_spaces(with_unlimited_memory(problem_.cluster));
      add(least_full(problem_, deadline_));
    }
    if (!for_the_step) return std::move(found_);
    for (const int ranks : fewer_ranks(problem_)) add_spaces(first_ranks(problem_.cluster, ranks), problem_.pricing);
    Pricing free_links = problem_.pricing;
    free_links.compute_only = true;
    add_spaces(problem_.cluster, free_links);
    return std::move(found_);
  }

 private:
  void add_spaces(const Cluster& cluster, const Pricing& pricing) {
    add_space(cluster, pricing, problem_.space);
    add_narrower_spaces(cluster, pricing);
  }

  void add_narrower_spaces(const Cluster& cluster) { add_narrower_spaces(cluster, problem_.pricing); }
  void add_narrower_spaces(const Cluster& cluster, const Pricing& pricing) {
    for (const Cuts cuts : narrower(problem_.space.cuts))
      for (const int replicas : narrower_replicas(problem_.space.most_replicas)) {
        SearchSpace space = problem_.space;
        space.cuts = cuts;
        space.most_replicas = replicas;
        if (cuts != problem_.space.cuts || replicas != problem_.space.most_replicas) add_space(cluster, pricing, space);
      }
  }

  void add_space(const Cluster& cluster, const Pricing& pricing, const SearchSpace& space) {
    add(solve({problem_.profile, cluster, pricing, space}, Method::dp, deadline_).solution);
  }

  void add(const Solution& solution) {
    if (!solution.found()) return;
    if (std::find(found_.begin(), found_.end(), solution.stages) == found_.end()) found_.push_back(solution.stages);
  }

  const Problem& problem_;
  Deadline deadline_;
  std::vector<std::vector<Stage>> found_;
};

}  // namespace

std::vector<std::vector<Stage>> other_candidates(const Problem& problem, bool for_the_step, Deadline deadline) {
  return Collector(problem, deadline).run(for_the_step);
}

}  // namespace sluice
