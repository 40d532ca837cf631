#include "optimizer/schedule/build_plan.h"

#include <algorithm>

#include "core/error.h"
#include "core/stage_check.h"
#include "core/text.h"
#include "optimizer/schedule/generators.h"
#include "optimizer/schedule/lowering.h"

namespace sluice {
namespace {

void check(const Plan& plan) {
  if (plan.microbatches < 1) throw bad_input(text(plan.microbatches, " micro-batches, expected at least 1"));
  Rank last = kNone;
  for (const Stage& stage : plan.stages)
    for (const Rank rank : stage.owners) last = std::max(last, rank);
  if (last >= std::ssize(plan.cluster.ranks))
    throw infeasible(text("stages for ", last + 1, " ranks, but the cluster has ", plan.cluster.ranks.size(),
                          " ranks: give fewer cuts or more ranks"));
  validate(plan);
  if (const std::string fault = stage_fault(plan); !fault.empty()) throw bad_input(fault);
}

}  // namespace

Plan build_plan(PlanRequest request) {
  Plan plan;
  plan.profile = request.profile;
  plan.cluster = request.cluster;
  if (request.compute_only) plan.cluster.intra_node = plan.cluster.inter_node = LinkClass{};
  plan.schedule = std::move(request.schedule);
  plan.microbatches = request.microbatches;
  plan.stages = std::move(request.stages);
  check(plan);
  plan.programs.push_back(lower(plan, "step", generate_step(plan), request.algorithm));
  plan.programs.push_back(lower(plan, "evaluate", generate_evaluate(plan), request.algorithm));
  return plan;
}

}  // namespace sluice
