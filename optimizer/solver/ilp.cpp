#include "optimizer/solver/ilp.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "optimizer/solver/ilp/loads.h"
#include "optimizer/solver/ilp/mip.h"
#include "optimizer/solver/ilp/works.h"

namespace sluice {
namespace {

/// What CBC can tell apart: ten times its tolerance on rows of a thousand units.
constexpr double kTolerance = 1e-6;

double price_of(const Problem& problem, const std::vector<Stage>& stages) {
  const Loads loads = loads_of(problem.profile, problem.cluster, stages, problem.pricing);
  return bottleneck(problem.cluster, loads, problem.pricing).seconds;
}

/// Compute of everything, shared by all ranks as their speeds allow [s per micro-batch].
double ideal_s(const Problem& problem) {
  double compute_s = 0, speed = 0;
  for (const LayerCost& cost : problem.profile.costs)
    compute_s +=
        cost.forward_s + cost.backward_input_s + cost.backward_weight_s + cost.update_s / problem.pricing.microbatches;
  for (const RankSpec& rank : problem.cluster.ranks) speed += rank.speed;
  return compute_s / speed;
}

class IlpSearch {
 public:
  IlpSearch(const Problem& problem, const std::vector<Stage>& seed, double lower_bound, Deadline deadline)
      : problem_(problem), deadline_(deadline) {
    if (!seed.empty()) consider(seed);
    best_.lower_bound = std::max(lower_bound, ideal_s(problem) / kRounding);
  }

  Solution run() {
    if (is_optimal(best_)) return best_;
    unit_s_ = unit_s();
    time_ = mip_.add({.upper = kUnbounded, .cost = 1});
    WorkColumns works(mip_, problem_);
    load_ranks_and_links(mip_, works, problem_, time_, unit_s_);
    limit_memory(mip_, works, problem_);
    while (best_.lower_bound * kRounding < best_.price && !best_.timed_out) improve(works);
    return best_;
  }

 private:
  /// A thousandth of what the bottleneck is likely to be.
  [[nodiscard]] double unit_s() const {
    const double likely = best_.found() && best_.price < kUnbounded ? best_.price : ideal_s(problem_);
    return likely > 0 ? likely / 1000 : 1e-6;
  }

  void improve(WorkColumns& works) {
    mip_.columns[at(time_)].lower = best_.lower_bound / unit_s_ * (1 - kTolerance);
    if (best_.price < kUnbounded) mip_.columns[at(time_)].upper = best_.price / unit_s_ * (1 - kTolerance);
    const MipResult result = solve(mip_, deadline_);
    if (result.status == MipStatus::infeasible) return raise_bound(best_.price);
    best_.timed_out = result.status == MipStatus::stopped;
    if (result.bound > -kUnbounded) raise_bound(result.bound * unit_s_ * (1 - kTolerance));
    if (result.values.empty()) return;
    const std::vector<Stage> stages = works.stages(result.values);
    const double price = price_of(problem_, stages);
    consider(stages);
    if (result.status == MipStatus::optimal && price <= result.bound * unit_s_ * (1 + kTolerance))
      raise_bound(best_.price);
    else
      works.exclude(result.values);
  }

  void consider(const std::vector<Stage>& stages) {
    if (const double price = price_of(problem_, stages); price < best_.price) {
      best_.stages = stages;
      best_.price = price;
    }
  }

  /// A bound above the best price says only that nothing better is left.
  void raise_bound(double bound) { best_.lower_bound = std::max(best_.lower_bound, std::min(bound, best_.price)); }

  const Problem& problem_;
  const Deadline deadline_;
  Solution best_;
  Mip mip_;
  int time_ = 0;
  double unit_s_ = 1;
};

}  // namespace

Solution solve_ilp(const Problem& problem, const std::vector<Stage>& seed, double lower_bound, Deadline deadline) {
  if (problem.space.most_replicas > 1)
    throw infeasible(text("the integer program knows no replicas (up to ", problem.space.most_replicas,
                          " allowed): take --replicas 1, or --method dp"));
  return IlpSearch(problem, seed, lower_bound, deadline).run();
}

}  // namespace sluice
