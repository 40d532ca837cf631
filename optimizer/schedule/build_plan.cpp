#include "optimizer/schedule/build_plan.h"

#include <algorithm>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/route_choice.h"
#include "core/schedule.h"
#include "core/stage_check.h"
#include "core/text.h"
#include "optimizer/schedule/asynchronous.h"
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
  if (plan.data_reader >= std::ssize(plan.cluster.ranks))
    throw infeasible(text("rank ", plan.data_reader, " is to read the data, but the cluster has ",
                          plan.cluster.ranks.size(), " ranks: name one of them, or give more ranks"));
  const bool fetches =
      std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) { return stage.fetches_weights; });
  if (fetches && schedule_named(plan.schedule).placement != Placement::cooperative)
    throw infeasible(text("schedule ", plan.schedule, " cannot fetch weights for a forward: use cooperative"));
  validate(plan);
  if (const std::string fault = stage_fault(plan); !fault.empty()) throw bad_input(fault);
}

/// Both halves of a whole backward stay at its owners.
std::vector<Stage> halved(const std::vector<Stage>& stages) {
  std::vector<Stage> halves = stages;
  for (Stage& stage : halves)
    if (stage.work == Work::backward) stage.work = Work::backward_input;
  for (Stage stage : stages) {
    if (stage.work != Work::backward) continue;
    stage.work = Work::backward_weight;
    halves.push_back(std::move(stage));
  }
  return halves;
}

}  // namespace

void require_split_backward(const Profile& profile, const std::string& schedule) {
  if (schedule_named(schedule).halves_backward && !profile.split_backward)
    throw infeasible(text("schedule ", schedule,
                          " runs backward-input and backward-weight apart, for which the profile has one time: use "
                          "1f1b, or a profile of sluice-run profile"));
}

Plan build_plan(PlanRequest request) {
  Plan plan;
  plan.profile = request.profile;
  plan.cluster = request.cluster;
  if (request.compute_only) {
    plan.cluster.intra_node = plan.cluster.inter_node = LinkClass{};
    plan.cluster.algorithm_costs.clear();
  }
  plan.schedule = std::move(request.schedule);
  plan.microbatches = request.microbatches;
  plan.multicast = request.multicast;
  plan.all_reduce = request.all_reduce;
  plan.data_reader = request.data_reader;
  plan.stages = std::move(request.stages);
  require_split_backward(plan.profile, plan.schedule);
  if (schedule_named(plan.schedule).halves_backward) plan.stages = halved(plan.stages);
  check(plan);
  if (asynchronous(plan)) {
    lower_asynchronous(plan);
  } else {
    const Figure figure = request.text != nullptr ? figure_of(*request.text, plan) : generate_step(plan);
    plan.programs.push_back(lower(plan, "step", figure));
  }
  plan.programs.push_back(lower(plan, "evaluate", generate_evaluate(plan)));
  choose_routes(plan);
  return plan;
}

}  // namespace sluice
