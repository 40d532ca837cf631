#include "optimizer/planner/score.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/prediction.h"
#include "core/text.h"
#include "core/verifier.h"
#include "optimizer/schedule/build_plan.h"

namespace sluice {
namespace {

Fullest fullest_rank(const Plan& plan) {
  Fullest fullest;
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
    const Fullest candidate{rank, memory_use(plan, rank).total(), plan.cluster.ranks[at(rank)].memory_bytes};
    if (candidate.fullness() > fullest.fullness()) fullest = candidate;
  }
  return fullest;
}

/// First layers of the second, third, ... worker in one work; nothing if their layers are no intervals in order.
/// @param workers  by position
std::optional<std::vector<int>> cuts_of(const std::vector<Stage>& stages, Work work,
                                        const std::map<int, int>& workers) {
  const int positions = static_cast<int>(workers.size());
  std::vector<int> bounds(at(positions) + 1, kNone);
  int layers = 0;
  for (const Stage& stage : stages) {
    if (stage.work != work) continue;
    if (stage.layers.back() - stage.layers.front() + 1 != std::ssize(stage.layers)) return std::nullopt;
    bounds[static_cast<std::size_t>(std::distance(workers.begin(), workers.find(stage.index)))] = stage.layers.front();
    layers = std::max(layers, stage.layers.back() + 1);
  }
  bounds[at(positions)] = layers;
  for (int k = positions - 1; k >= 0; --k)  // without layers: where the next one begins
    if (bounds[at(k)] == kNone) bounds[at(k)] = bounds[at(k + 1)];
  if (!std::is_sorted(bounds.begin(), bounds.end())) return std::nullopt;
  return std::vector<int>(bounds.begin() + 1, bounds.end() - 1);
}

std::string joined(const std::vector<int>& numbers) {
  std::string list;
  for (const int number : numbers) list += text(list.empty() ? "" : ",", number);
  return list;
}

bool has(const std::vector<Stage>& stages, Work work) {
  return std::any_of(stages.begin(), stages.end(), [&](const Stage& stage) { return stage.work == work; });
}

/// Position and owners of each layer's stage of one work.
std::map<LayerId, std::pair<int, std::vector<Rank>>> places(const std::vector<Stage>& stages, Work work) {
  std::map<LayerId, std::pair<int, std::vector<Rank>>> places;
  for (const Stage& stage : stages)
    if (stage.work == work)
      for (const LayerId layer : stage.layers) places[layer] = {stage.index, stage.owners};
  return places;
}

/// Forward stages that fetch weights as if they belonged to the owners who send them.
std::vector<Stage> at_their_owners(std::vector<Stage> stages) {
  for (Stage& forward : stages)
    for (const Stage& stage : stages)
      if (forward.fetches_weights && stage.work == Work::backward && stage.index == forward.index)
        forward.owners = stage.owners;
  return stages;
}

}  // namespace

PlanFigures describe_stages(const std::vector<Stage>& given) {
  const std::vector<Stage> stages = at_their_owners(given);
  const std::map<int, int> replicas = replicas_by_position(stages);
  const auto cuts_text = [&](Work work) {
    const auto cuts = cuts_of(stages, work, replicas);
    return cuts ? joined(*cuts) : std::string("-");
  };
  const bool three = has(stages, Work::backward_weight);
  const Work backward = three ? Work::backward_input : Work::backward;
  PlanFigures figures;
  figures.cuts = to_string(three                                                       ? Cuts::three
                           : places(stages, Work::forward) == places(stages, backward) ? Cuts::joint
                                                                                       : Cuts::independent);
  figures.forward_cuts = cuts_text(Work::forward);
  figures.backward_cuts = cuts_text(backward);
  if (three) figures.weight_cuts = cuts_text(Work::backward_weight);
  std::vector<int> counts;
  for (const auto& [position, count] : replicas) counts.push_back(count);
  figures.replicas = joined(counts);
  figures.workers = static_cast<int>(counts.size());
  for (const Stage& stage : stages)
    if (stage.work == Work::recompute) figures.recomputed_layers += static_cast<int>(stage.layers.size());
  return figures;
}

std::string to_string(const Bottleneck& bottleneck, const Cluster& cluster) {
  switch (bottleneck.resource) {
    case Resource::compute:
      return text("compute of rank ", bottleneck.where);
    case Resource::rank_link:
      return text("link of rank ", bottleneck.where);
    case Resource::nic:
      return text("NIC of ", cluster.node_names[at(bottleneck.where)]);
    case Resource::memory:
      return text("memory of rank ", bottleneck.where);
  }
  return "unknown";
}

Scored score(const Problem& problem, const std::vector<Stage>& stages, const ScheduleText* text_of_schedule) {
  Pricing pricing = problem.pricing;
  pricing.data_reader = problem.data_reader;
  Scored scored{build_plan({.profile = problem.profile,
                            .cluster = problem.cluster,
                            .schedule = pricing.schedule,
                            .microbatches = pricing.microbatches,
                            .stages = stages,
                            .compute_only = pricing.compute_only,
                            .multicast = pricing.multicast,
                            .all_reduce = pricing.all_reduce,
                            .data_reader = pricing.data_reader,
                            .text = text_of_schedule}),
                {}};
  Plan& plan = scored.plan;
  scored.fullest = fullest_rank(plan);
  if (!scored.fullest.fits()) return scored;
  if (const auto defect = verify(plan))
    throw runtime_fault(text("a plan made here is refused, which is a fault of this program: ", to_string(*defect)));

  // Memory has been weighed exactly above: the safe count must not refuse what fits.
  const Cluster unlimited = with_unlimited_memory(problem.cluster);
  const Bottleneck busiest = bottleneck(unlimited, loads_of(problem.profile, unlimited, stages, pricing), pricing);
  plan.figures = describe_stages(stages);
  plan.figures.schedule = plan.schedule;
  plan.figures.microbatch = problem.profile.model.microbatch;
  plan.figures.microbatches = pricing.microbatches;
  plan.figures.bottleneck_s = busiest.seconds;
  plan.figures.bound_by = to_string(busiest, problem.cluster);
  const Prediction prediction = predict_step(plan);
  plan.figures.step_s = prediction.step_s;
  for (const RankTimeline& rank : prediction.timeline.ranks)
    plan.figures.peak_memory_bytes = std::max(plan.figures.peak_memory_bytes, rank.peak_memory_bytes);
  return scored;
}

}  // namespace sluice
