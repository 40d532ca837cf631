#include "optimizer/schedule/build_plan.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/schedule/generators.h"
#include "optimizer/schedule/lowering.h"

namespace sluice {
namespace {

void check_bounds(const std::vector<int>& bounds, const char* work, int layers) {
  if (bounds.size() < 2 || bounds.front() != 0 || bounds.back() != layers ||
      !std::is_sorted(bounds.begin(), bounds.end()))
    throw bad_input(text(work, " bounds do not ascend from 0 to the ", layers, " layers"));
}

void check(const PlanRequest& request) {
  const int layers = static_cast<int>(request.profile.model.layers.size());
  check_bounds(request.partition.forward_bounds, "forward", layers);
  check_bounds(request.partition.backward_bounds, "backward", layers);
  if (request.partition.forward_bounds.size() != request.partition.backward_bounds.size())
    throw bad_input(text("forward bounds of ", request.partition.workers(), " workers, but backward bounds of ",
                         request.partition.backward_bounds.size() - 1));
  if (request.partition.workers() > std::ssize(request.cluster.ranks))
    throw infeasible(text(request.partition.workers(), " workers, but the cluster has ", request.cluster.ranks.size(),
                          " ranks: give fewer cuts or more ranks"));
  if (request.microbatches < 1) throw bad_input(text(request.microbatches, " micro-batches, expected at least 1"));
}

/// One stage for each interval that is not empty: worker k sits on rank k.
void append_stages(std::vector<Stage>& stages, Work work, const std::vector<int>& bounds) {
  for (int k = 0; k + 1 < std::ssize(bounds); ++k) {
    std::vector<LayerId> layers(at(bounds[at(k + 1)] - bounds[at(k)]));
    std::iota(layers.begin(), layers.end(), bounds[at(k)]);
    if (!layers.empty()) stages.push_back({.work = work, .index = k, .layers = std::move(layers), .owners = {k}});
  }
}

}  // namespace

Plan build_plan(const PlanRequest& request) {
  check(request);
  Plan plan;
  plan.profile = request.profile;
  plan.cluster = request.cluster;
  if (request.compute_only) plan.cluster.intra_node = plan.cluster.inter_node = LinkClass{};
  plan.schedule = request.schedule;
  plan.microbatches = request.microbatches;
  append_stages(plan.stages, Work::forward, request.partition.forward_bounds);
  append_stages(plan.stages, Work::backward, request.partition.backward_bounds);

  const int ranks = static_cast<int>(plan.cluster.ranks.size());
  const Figure step = generate_step(plan.schedule, plan.stages, ranks, plan.microbatches);
  plan.programs.push_back(lower(plan, "step", step, request.algorithm));
  const Figure evaluate = generate_evaluate(plan.stages, ranks, plan.microbatches);
  plan.programs.push_back(lower(plan, "evaluate", evaluate, request.algorithm));
  return plan;
}

}  // namespace sluice
