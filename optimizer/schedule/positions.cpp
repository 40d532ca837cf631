#include "optimizer/schedule/positions.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/index.h"
#include "core/schedule.h"
#include "core/stage_pricing.h"
#include "core/text.h"

namespace sluice {
namespace {

int& stage_for(Position& position, Work work) {
  switch (work) {
    case Work::forward:
      return position.forward;
    case Work::recompute:
      return position.recompute;
    case Work::backward:
    case Work::backward_input:
      return position.backward;
    case Work::backward_weight:
      break;
  }
  return position.backward_weight;
}

bool share_a_rank(const Stage& a, const Stage& b) {
  return std::any_of(a.owners.begin(), a.owners.end(), [&](Rank rank) { return owns(rank, b); });
}

/// Finds for each backward-weight the backward-inputs that come before it.
class WeightOrder {
 public:
  WeightOrder(const Model& model, const std::vector<Stage>& stages, std::vector<Position>& positions)
      : model_(model),
        stages_(stages),
        positions_(positions),
        made_(tensors_by_producer(model)),
        consumers_(consumers_by_tensor(model)),
        input_position_(model.layers.size(), kNone) {
    for (int k = 0; k < std::ssize(positions); ++k)
      if (positions[at(k)].backward != kNone)
        for (const LayerId layer : stages[at(positions[at(k)].backward)].layers) input_position_[at(layer)] = k;
  }

  /// @param recomputed  behind recomputes of what they read, too
  void fill(bool recomputed) {
    for (Position& position : positions_) {
      if (position.backward_weight == kNone) continue;
      follows_ = kNone;
      for (const LayerId layer : stages_[at(position.backward_weight)].layers) add_needs(layer, position, recomputed);
      position.weight_follows = follows_;
    }
  }

 private:
  void add_needs(LayerId layer, const Position& position, bool recomputed) {
    for (const TensorId tensor : made_[at(layer)])
      if (model_.tensors[at(tensor)].kind == TensorKind::output)
        for (const LayerId consumer : consumers_[at(tensor)]) follow(input_position_[at(consumer)]);
    if (!recomputed) return;
    for (const TensorId tensor : model_.needs[at(layer)].backward_weight)
      follow_recompute(model_.tensors[at(tensor)].producer, stages_[at(position.backward_weight)]);
  }

  void follow_recompute(LayerId producer, const Stage& weight) {
    for (int k = 0; k < std::ssize(positions_); ++k) {
      if (positions_[at(k)].recompute == kNone) continue;
      const Stage& recompute = stages_[at(positions_[at(k)].recompute)];
      if (share_a_rank(recompute, weight) &&
          std::binary_search(recompute.layers.begin(), recompute.layers.end(), producer))
        follow(k);
    }
  }

  void follow(int position) { follows_ = follows_ == kNone ? position : std::min(follows_, position); }

  const Model& model_;
  const std::vector<Stage>& stages_;
  std::vector<Position>& positions_;
  std::vector<std::vector<TensorId>> made_;
  std::vector<std::vector<LayerId>> consumers_;
  std::vector<int> input_position_;  // by layer
  int follows_ = kNone;
};

/// The most owners of its stages: the ranks that share the position's micro-batches.
int replicas(const Position& position, const std::vector<Stage>& stages) {
  std::size_t most = 0;
  for (const int stage : {position.forward, position.recompute, position.backward, position.backward_weight})
    if (stage != kNone) most = std::max(most, stages[at(stage)].owners.size());
  return static_cast<int>(most);
}

void set_delays(std::vector<Position>& positions, const std::vector<Stage>& stages, const Pricing& pricing) {
  int ranks_from_here = 0;
  for (auto position = positions.rbegin(); position != positions.rend(); ++position) {
    ranks_from_here += replicas(*position, stages);
    position->backward_delay = std::max(1, microbatches_in_flight(pricing, ranks_from_here)) - 1;
  }
  const bool latest = schedule_named(pricing.schedule).delays_weights;
  for (int k = 0; k < std::ssize(positions); ++k) {
    const int follows = positions[at(k)].weight_follows;
    const int lowest = latest ? 0 : follows == kNone ? k : std::min(k, follows);
    positions[at(k)].weight_delay = positions[at(lowest)].backward_delay;
  }
}

bool are_placed(const Plan& plan, Placement placement, int ranks) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return stage.index < positions_of(placement, ranks, stage.index / ranks + 1) &&
           stage.owners == owners_at(placement, stage.index, ranks);
  });
}

}  // namespace

int pipeline_ranks(const Plan& plan) {
  const Placement placement = schedule_named(plan.schedule).placement;
  for (int ranks = 1; ranks <= std::ssize(plan.cluster.ranks); ++ranks)
    if (are_placed(plan, placement, ranks)) return ranks;
  throw infeasible(text("schedule ", plan.schedule,
                        " prescribes which rank owns which position, and the stages are elsewhere: give cuts without "
                        "replicas or owners, or use 1f1b"));
}

std::vector<Position> step_positions(const Plan& plan) {
  std::map<int, Position> by_index;
  for (int s = 0; s < std::ssize(plan.stages); ++s)
    stage_for(by_index[plan.stages[at(s)].index], plan.stages[at(s)].work) = s;
  const Placement placement = schedule_named(plan.schedule).placement;
  const bool line = placement == Placement::line;
  const bool placed = is_placed(placement);
  const int last = by_index.rbegin()->first;
  if (placement == Placement::given) {
    for (int k = last; k >= 0; --k) by_index[k];
  } else if (placed) {
    const int ranks = pipeline_ranks(plan);
    for (int k = positions_of(placement, ranks, last / ranks + 1) - 1; k >= 0; --k) by_index[k];
  }
  std::vector<Position> positions;
  for (const auto& [index, position] : by_index) positions.push_back(position);
  WeightOrder(plan.profile.model, plan.stages, positions).fill(!placed);
  if (line) set_delays(positions, plan.stages, {.schedule = plan.schedule, .microbatches = plan.microbatches});
  return positions;
}

std::vector<Position> evaluate_positions(const Plan& plan) {
  std::vector<Position> positions;
  for (const Position& position : step_positions(plan))
    if (position.forward != kNone) positions.push_back({.forward = position.forward});
  set_delays(positions, plan.stages, {.schedule = "1f1b", .microbatches = plan.microbatches});
  return positions;
}

}  // namespace sluice
