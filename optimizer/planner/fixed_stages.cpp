#include "optimizer/planner/fixed_stages.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/planner/placed_stages.h"
#include "optimizer/schedule/interval_stages.h"

namespace sluice {
namespace {

std::vector<int> bounds_of(const std::vector<int>& cuts, const char* work, int layers) {
  std::vector<int> bounds{0};
  for (const int cut : cuts) {
    if (cut < bounds.back() || cut > layers)
      throw usage_error(text(work, " cut ", cut, " is not between ", bounds.back(), " and the ", layers,
                             " layers: cuts are positions that do not descend"));
    bounds.push_back(cut);
  }
  bounds.push_back(layers);
  return bounds;
}

/// The ranks of each worker, in order.
std::vector<std::vector<Rank>> owners_of(const std::vector<int>& replicas, int ranks) {
  std::vector<std::vector<Rank>> owners;
  Rank next = 0;
  for (const int count : replicas) {
    if (count < 1) throw usage_error(text("a worker has ", count, " replicas, expected at least 1"));
    if (count > ranks - next)
      throw infeasible(text("the workers take ", std::accumulate(replicas.begin(), replicas.end(), std::int64_t{0}),
                            " ranks, but the cluster has ", ranks, ": give fewer cuts or replicas, or more ranks"));
    owners.emplace_back(at(count));
    std::iota(owners.back().begin(), owners.back().end(), next);
    next += count;
  }
  return owners;
}

std::vector<std::vector<Rank>> placed_owners(const Schedule& schedule, int positions, int ranks, int chunks) {
  const int used = ranks_of_positions(schedule, positions, chunks);
  if (used > ranks)
    throw infeasible(text(positions, " positions of schedule ", schedule.name, " take ", used,
                          " ranks, but the cluster has ", ranks, ": give fewer cuts, or more ranks"));
  std::vector<std::vector<Rank>> owners;
  for (int k = 0; k < positions; ++k) owners.push_back(owners_at(schedule.placement, k, used));
  return owners;
}

}  // namespace

std::vector<Stage> fixed_stages(const FixedCuts& cuts, int layers, int ranks, const Schedule& schedule, int chunks) {
  if (cuts.replicas && cuts.replicas->empty()) throw usage_error("--worker-replicas names no worker");
  const std::vector<int> none(cuts.replicas ? cuts.replicas->size() - 1 : 0, 0);
  const std::vector<int>& forward = cuts.forward ? *cuts.forward : cuts.backward ? *cuts.backward : none;
  const std::vector<int>& backward = cuts.backward ? *cuts.backward : forward;
  if (!cuts.forward && !cuts.backward && (cuts.weight || none.size() > 0))
    throw usage_error("--weight-cuts and --worker-replicas go with --forward-cuts: give these too");
  if (forward.size() != backward.size())
    throw usage_error(text(forward.size(), " forward cuts but ", backward.size(), " backward cuts: give as many"));
  if (cuts.weight && cuts.weight->size() != forward.size())
    throw usage_error(text(forward.size(), " forward cuts but ", cuts.weight->size(), " weight cuts: give as many"));
  const std::vector<int> replicas = cuts.replicas ? *cuts.replicas : std::vector<int>(forward.size() + 1, 1);
  if (replicas.size() != forward.size() + 1)
    throw usage_error(text(forward.size(), " cuts make ", forward.size() + 1, " workers, but --worker-replicas has ",
                           replicas.size()));
  const bool placed = is_placed(schedule.placement);
  if (placed && cuts.replicas)
    throw infeasible(
        text("schedule ", schedule.name, " cannot be had with --worker-replicas: leave it out, or use 1f1b"));
  const auto owners =
      placed ? placed_owners(schedule, static_cast<int>(replicas.size()), ranks, chunks) : owners_of(replicas, ranks);
  std::vector<Stage> stages;
  append_intervals(stages, Work::forward, bounds_of(forward, "forward", layers), owners);
  append_intervals(stages, cuts.weight ? Work::backward_input : Work::backward, bounds_of(backward, "backward", layers),
                   owners);
  if (cuts.weight) append_intervals(stages, Work::backward_weight, bounds_of(*cuts.weight, "weight", layers), owners);
  return stages;
}

}  // namespace sluice
