#include "optimizer/planner/candidates.h"

#include <algorithm>

#include "core/index.h"
#include "optimizer/solver/pipedream_price.h"
#include "optimizer/solver/search.h"

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

/// The values that a narrower search space may have, the narrowest first: it takes the least time, and a wider
/// one that takes all there is must not end with a worse plan.
std::vector<Cuts> narrower(Cuts cuts) {
  if (cuts == Cuts::three) return {Cuts::joint, Cuts::independent, Cuts::three};
  if (cuts == Cuts::independent) return {Cuts::joint, Cuts::independent};
  return {Cuts::joint};
}
std::vector<int> narrower_replicas(int most) { return most > 1 ? std::vector{1, most} : std::vector{1}; }

/// Every layer runs forward again before its backward.
Solution recomputing_all(Solution solution) {
  for (std::size_t s = 0, count = solution.stages.size(); s < count; ++s)
    if (Stage again = solution.stages[s]; again.work == Work::backward || again.work == Work::backward_input) {
      again.work = Work::recompute;
      solution.stages.push_back(std::move(again));
    }
  return solution;
}

/// As many layers for each of `count` workers, and as many of the `used` fastest ranks.
std::vector<Stage> evenly(const Problem& problem, int count, int used) {
  std::vector<Rank> ranks = whole_cluster(problem.cluster).ranks;
  sort_replicas(ranks, problem.cluster);
  std::vector<Worker> workers(at(count));
  for (std::int64_t i = 0; i < used; ++i)
    workers[static_cast<std::size_t>(i * count / used)].ranks.push_back(ranks[at(static_cast<int>(i))]);
  const auto layers = static_cast<int>(problem.profile.model.layers.size());
  for (const Work work : works_of(problem.space.cuts))
    for (LayerId layer = 0; layer < layers; ++layer)
      workers[static_cast<std::size_t>(std::int64_t{layer} * count / layers)].works.push_back({layer, work});
  return stages_of(workers);
}

class Collector {
 public:
  Collector(const Problem& problem, Deadline deadline) : problem_(problem), deadline_(deadline) {}

  std::vector<std::vector<Stage>> run(bool for_the_step) {
    add_narrower_spaces(problem_.cluster);
    add(pipedream_candidate(problem_));
    if (memory_is_limited(problem_.cluster)) {
      add_narrower_spaces(with_unlimited_memory(problem_.cluster));
      const Solution lean = least_full(problem_, deadline_);
      add(lean);
      if (problem_.space.recompute) add(recomputing_all(lean));
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
    add_narrower_spaces(cluster, pricing);
    add_space(cluster, pricing, problem_.space);
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

std::vector<std::vector<Stage>> plans_without_search(const Problem& problem) {
  const auto ranks = static_cast<int>(problem.cluster.ranks.size());
  const auto layers = static_cast<int>(problem.profile.model.layers.size());
  std::vector<std::vector<Stage>> plans;
  const int workers = std::min(ranks, layers);
  if (!problem.space.exactly) plans = {evenly(problem, 1, 1), evenly(problem, workers, workers)};
  if (problem.space.exactly && ranks <= std::int64_t{workers} * problem.space.most_replicas)
    plans.push_back(evenly(problem, workers, ranks));
  return plans;
}

}  // namespace sluice
