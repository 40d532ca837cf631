#include <algorithm>
#include <map>
#include <set>

#include "core/cost_model.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/stage_pricing.h"
#include "core/text.h"
#include "optimizer/command/plan_text.h"
#include "results/text_table.h"

namespace sluice {
namespace {

constexpr int kWidth = 60;  // of a bar

/// Ranks that own the same stages: the replicas of a worker.
using Workers = std::map<std::vector<int>, std::vector<Rank>>;  // stages -> ranks

Workers workers_on(const Plan& plan, int node) {
  Workers workers;
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
    if (plan.cluster.ranks[at(rank)].node != node) continue;
    std::vector<int> stages;
    for (int s = 0; s < std::ssize(plan.stages); ++s)
      if (owns(rank, plan.stages[at(s)])) stages.push_back(s);
    workers[stages].push_back(rank);
  }
  return workers;
}

/// "rank 3", "ranks 0-3", "ranks 0, 2".
std::string ranks_text(const std::vector<Rank>& ranks) {
  if (ranks.size() == 1) return text("rank ", ranks[0]);
  if (ranks.back() - ranks.front() + 1 == std::ssize(ranks)) return text("ranks ", ranks.front(), "-", ranks.back());
  std::string list;
  for (const Rank rank : ranks) list += text(list.empty() ? "ranks " : ", ", rank);
  return list;
}

char letter(Work work) {
  switch (work) {
    case Work::forward:
      return 'F';
    case Work::backward:
    case Work::backward_input:
      return 'B';
    case Work::backward_weight:
      return 'W';
    case Work::recompute:
      return 'R';
  }
  return '?';
}

/// The model's layers from left to right, the stage's marked.
std::string bar(const Plan& plan, const Stage& stage) {
  const auto layers = static_cast<int>(plan.profile.model.layers.size());
  const int width = std::min(layers, kWidth);
  std::string marks(at(width), '.');
  for (const LayerId layer : stage.layers) marks[at(layer * width / layers)] = letter(stage.work);
  return text(letter(stage.work), " |", marks, "| ");
}

std::string mebibytes(double bytes) { return format_mebibytes(static_cast<std::int64_t>(bytes)); }

std::string memory_text(const Plan& plan, Rank rank) {
  const std::int64_t limit = plan.cluster.ranks[at(rank)].memory_bytes;
  return format_mebibytes(memory_use(plan, rank).total()) +
         (limit == kUnlimitedMemory ? "" : " of " + format_mebibytes(limit));
}

std::string worker_text(const Plan& plan, const Loads& loads, const std::vector<int>& stages,
                        const std::vector<Rank>& ranks) {
  const std::string name = ranks_text(ranks);
  std::string lines;
  for (const int s : stages) {
    const Stage& stage = plan.stages[at(s)];
    const std::string title = lines.empty() ? name : "";
    lines +=
        text("  ", title, std::string(std::max<std::size_t>(12, name.size() + 1) - title.size(), ' '), bar(plan, stage),
             layer_names(plan, stage), ", ", format_seconds(stage_time(plan.profile, stage.layers, stage.work)), '\n');
  }
  if (stages.empty()) return text("  ", name, ": no work\n");
  const RankLoad& load = loads.ranks[at(ranks.front())];
  return lines + text(std::string(14, ' '), "compute ", format_seconds(load.compute_s), " a micro-batch, memory ",
                      memory_text(plan, ranks.front()), ", in ", mebibytes(load.received_bytes), ", out ",
                      mebibytes(load.sent_bytes), '\n');
}

std::string node_text(const Plan& plan, const Loads& loads, int node) {
  const NodeLoad& nic = loads.nodes[at(node)];
  std::string lines = plan.cluster.node_names[at(node)];
  if (loads.nodes.size() > 1)
    lines +=
        text(": network in ", mebibytes(nic.received_bytes), ", out ", mebibytes(nic.sent_bytes), " a micro-batch");
  lines += '\n';
  for (const auto& [stages, ranks] : workers_on(plan, node)) lines += worker_text(plan, loads, stages, ranks);
  return lines;
}

/// A partition without a schedule: a foreign planner's, whose loads are not ours.
std::string partition_drawing(const Plan& plan) {
  std::string lines =
      text(plan.profile.model.layers.size(), " layers from left to right; a partition without a schedule\n");
  for (const Stage& stage : plan.stages)
    lines += text("  rank ", stage.owners.front(), "  ", bar(plan, stage), stage.layers.size(), " layers, ",
                  format_seconds(stage_time(plan.profile, stage.layers, stage.work)), '\n');
  return lines;
}

/// Loads count each all-reduce as a ring (core/stage_pricing.h).
bool reduces_otherwise(const Plan& plan) {
  return std::any_of(plan.transfers.begin(), plan.transfers.end(), [](const Transfer& transfer) {
    return transfer.payload == Payload::weight_gradients && transfer.route.algorithm != Algorithm::ring;
  });
}

std::string more(double a, double b) { return format_signed_percent(b > 0 ? a / b - 1 : 0); }

}  // namespace

std::string drawing(const Plan& plan) {
  if (plan.programs.empty()) return partition_drawing(plan);
  const Loads loads =
      loads_of(plan.profile, plan.cluster, plan.stages,
               {.schedule = plan.schedule, .microbatches = plan.microbatches, .data_reader = plan.data_reader});
  std::string lines = text(plan.profile.model.layers.size(), " layers from left to right; F forward, B backward, ",
                           "W backward-weight, R recomputed; traffic inside nodes per rank",
                           reduces_otherwise(plan) ? ", all-reduces counted as rings" : "", '\n');
  for (int node = 0; node < std::ssize(plan.cluster.node_names); ++node) lines += node_text(plan, loads, node);
  return lines;
}

std::string reasons(const Plan& plan) {
  const PlanFigures& chosen = plan.figures;
  std::string lines = text(plan.programs.empty() ? "cost " : "bottleneck ", format_seconds(chosen.bottleneck_s), " (",
                           chosen.bound_by, "): ", plan.status);
  if (plan.status != "optimal" && plan.lower_bound_s > 0)
    lines += text(", no plan is below ", format_seconds(plan.lower_bound_s), " (",
                  more(chosen.bottleneck_s, plan.lower_bound_s), ")");
  lines += text("; found by ", plan.method, '\n');
  if (plan.runners_up.empty()) return lines;
  const PlanFigures& next = plan.runners_up.front();
  return lines + text("chosen over the next best (", next.schedule == plan.schedule ? "" : next.schedule + ", ",
                      next.cuts, ", ", next.workers, " workers, replicas ", next.replicas, ", bound by ", next.bound_by,
                      "): its step takes ", format_seconds(next.step_s), " (", more(next.step_s, chosen.step_s),
                      "), its bottleneck is ", format_seconds(next.bottleneck_s), " (",
                      more(next.bottleneck_s, chosen.bottleneck_s), ")\n");
}

}  // namespace sluice
