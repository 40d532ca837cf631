#include "optimizer/planner/solve.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/enumeration.h"
#include "optimizer/solver/ilp.h"
#include "optimizer/solver/search.h"
#include "optimizer/solver/topology.h"

namespace sluice {
namespace {

/// Models that enumeration often ends for, most often at once: what is tried before integer programming.
constexpr std::size_t kFewLayers = 16;
constexpr std::chrono::seconds kEnumerationLimit{10};

bool is_small(const Problem& problem) {
  return problem.profile.model.layers.size() <= kFewLayers && count_plans(problem) <= kMostPlans;
}

Deadline sooner(Deadline deadline, std::chrono::seconds limit) {
  return std::min(deadline, std::chrono::steady_clock::now() + limit);
}

Solution by_dynamic_programming(const Problem& problem, Deadline deadline) {
  const bool alike = problem.pricing.compute_only || linked_alike(problem.cluster);
  return alike ? search(problem, deadline) : solve_on_nodes(problem, deadline);
}

/// The better plan and the better proof of two.
Solution better(Solution a, Solution b) {
  const double bound = std::max(a.lower_bound, b.lower_bound);
  Solution& best = b.price < a.price ? b : a;
  best.lower_bound = bound;
  best.timed_out = a.timed_out && b.timed_out;
  return std::move(best);
}

/// The price of a rank is how full it is.
class FullnessPrice : public WorkerObjective {
 public:
  explicit FullnessPrice(const WorkerCost& cost) : cost_(&cost) {}
  [[nodiscard]] const WorkerCost& cost() const override { return *cost_; }
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const override {
    return static_cast<double>(cost_->memory_bytes(load, seat)) / static_cast<double>(rank.memory_bytes);
  }
  [[nodiscard]] double floor(const WorkerLoad&, int, const RankSpec&) const override { return 0; }

 private:
  const WorkerCost* cost_;
};

}  // namespace

const char* to_string(Method method) {
  switch (method) {
    case Method::automatic:
      return "auto";
    case Method::dp:
      return "dp";
    case Method::ilp:
      return "ilp";
    case Method::exhaustive:
      return "exhaustive";
  }
  return "unknown";
}

Solved solve(const Problem& problem, Method method, Deadline deadline) {
  if (method == Method::exhaustive) return {enumerate(problem, deadline), Method::exhaustive};
  Solution found = by_dynamic_programming(problem, deadline);
  if (method == Method::dp) return {std::move(found), Method::dp};
  const bool settled = is_optimal(found) || std::isinf(found.lower_bound);
  if (method == Method::automatic && settled) return {std::move(found), Method::dp};
  if (method == Method::automatic && is_small(problem)) {
    found = better(found, enumerate(problem, sooner(deadline, kEnumerationLimit), found));
    if (is_optimal(found) || std::isinf(found.lower_bound)) return {std::move(found), Method::exhaustive};
  }
  if (problem.space.most_replicas > 1) {
    if (method == Method::automatic) return {std::move(found), Method::dp};
    throw infeasible(text("integer programming does not know replicas: use --replicas 1, or --method auto"));
  }
  return {better(found, solve_ilp(problem, found.stages, found.lower_bound, deadline)), Method::ilp};
}

Solution least_full(const Problem& problem, Deadline deadline) {
  const WorkerCost cost(problem.profile, problem.cluster, problem.pricing);
  SearchScope scope = whole_cluster(problem.cluster);
  scope.deadline = deadline;
  SearchSpace space = problem.space;
  space.cuts = Cuts::joint;
  const Pipeline pipeline = search(work_graph(problem.profile.model, space), FullnessPrice(cost), space, scope);
  Solution solution;
  solution.stages = stages_of(pipeline.workers);
  solution.price = pipeline.price;
  return solution;
}

}  // namespace sluice
