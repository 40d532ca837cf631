#pragma once

#include <vector>

#include "optimizer/solver/work_graph.h"
#include "optimizer/solver/worker_objective.h"

/// Dynamic programming over the ideals of a work graph.
///
/// For a limit T and from the last worker to the first: f(I) = the ranks with which the
/// works outside ideal I can be done, every worker cheaper than T. With equal ranks the least number
/// is all that earlier workers need to know, because more ranks behind only mean more micro-batches
/// in flight; with `exactly`, every possible number. The least T follows by bisection; it ends when
/// no pipeline is cheaper than the one found.
///
/// Ranks of unequal speed or memory fall into classes of equal ones. f(I) then holds the counts of each
/// class that no other counts beat in all classes. A worker may mix classes: each of its
/// replicas is priced as the busiest, so that a mixed worker may turn out cheaper than its price here;
/// lower_bound allows for that, and is exact for equal ranks and for workers without replicas.
///
/// The ranks of all workers, which some memory depends on, are charged at a number n; the least n
/// that serves is found by letting n rise to the number of ranks that a pass needs.
namespace sluice {

/// Where a search has to find its pipeline.
struct SearchScope {
  std::vector<Rank> ranks;   ///< that it may use
  int ranks_before = 0;      ///< of earlier workers that the search does not place
  int ranks_behind = 0;      ///< likewise of later ones
  double below = kInfinity;  ///< pipelines that cost this or more are of no interest
  Deadline deadline = kNoDeadline;
};

/// What a search over workers found: with no workers, nothing cheaper than scope.below.
struct Pipeline {
  std::vector<Worker> workers;  ///< from the first to the last
  double price = kInfinity;     ///< the largest of a worker
  double lower_bound = 0;       ///< no pipeline costs less (but maybe scope.below or more); infinite: there is none
  bool timed_out = false;       ///< cut short: out of time, of memory for ideals, or of numbers for choices of ranks
};

/// @param space  its limits on replicas and `exactly`; what is cut is the graph's business
/// It is cut short at 4 million ideals (of chains side by side: 256 million), and looks at nothing at all where ranks
/// of many classes make more than 65,536 crews.
[[nodiscard]] Pipeline search(const WorkGraph& graph, const WorkerObjective& objective, const SearchSpace& space,
                              const SearchScope& scope);

/// The largest price of workers in pipeline order.
[[nodiscard]] double price_of(const std::vector<Worker>& workers, const WorkerObjective& objective,
                              const SearchScope& scope);

/// All ranks of a cluster.
[[nodiscard]] SearchScope whole_cluster(const Cluster& cluster);

/// The problem's bottleneck. The price is bottleneck() of the stages; the lower bound holds on every
/// cluster (where links differ or backward sets may be dealt out freely, searches of a wider or narrower
/// space are allowed for).
[[nodiscard]] Solution search(const Problem& problem, Deadline deadline);

}  // namespace sluice
