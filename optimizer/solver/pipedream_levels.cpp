#include "optimizer/solver/pipedream_levels.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/problem.h"

namespace sluice {
namespace {

/// A square table over pairs of states.
template <typename T>
class Pairs {
 public:
  Pairs(std::size_t states, T value) : states_(states), values_(states * states, value) {}
  [[nodiscard]] T& operator()(int first, int last) { return values_[at(first) * states_ + at(last)]; }
  [[nodiscard]] const T& operator()(int first, int last) const { return values_[at(first) * states_ + at(last)]; }

 private:
  std::size_t states_;
  std::vector<T> values_;
};

/// How one level best divides what lies between two states.
class Level {
 public:
  Level(const std::vector<PipedreamState>& states, const PipedreamLevel& level, const PipedreamRules& rules,
        const Pairs<double>& inner_s, int machines_inside)
      : states_(states),
        level_(level),
        rules_(rules),
        inner_s_(inner_s),
        machines_inside_(machines_inside),
        best_(states.size(), {}) {}

  /// From state `first` to every state that contains it.
  void solve(int first, const std::vector<std::vector<int>>& contained);
  [[nodiscard]] double time_s(int first, int last) const {
    return best_(first, last).empty() ? kInfinity : best_(first, last).back().time_s;
  }
  [[nodiscard]] std::vector<PipedreamStage> stages(int first, int last) const;

 private:
  /// Of all pipelines on so many machines: the last stage and what remains for those before it.
  struct Choice {
    double time_s = kInfinity;
    int split = kNone;  ///< where the last stage begins
    int replicas = 0;
    int machines_before = 0;
  };
  [[nodiscard]] Choice choose(int first, int last, int machines, const std::vector<int>& splits) const;
  [[nodiscard]] double stage_s(int first, int last, int replicas, int machines_so_far, bool opens) const;
  [[nodiscard]] double held_bytes(int first, int last, int replicas, int machines_so_far) const;

  const std::vector<PipedreamState>& states_;
  PipedreamLevel level_;
  PipedreamRules rules_;
  const Pairs<double>& inner_s_;
  int machines_inside_;
  Pairs<std::vector<Choice>> best_;  // by machines, from one on
};

void Level::solve(int first, const std::vector<std::vector<int>>& contained) {
  for (int last = first + 1; last < static_cast<int>(states_.size()); ++last) {
    std::vector<int> splits;
    for (const int k : contained[at(last)])
      if (k > first && !best_(first, k).empty()) splits.push_back(k);
    if (!std::binary_search(contained[at(last)].begin(), contained[at(last)].end(), first)) continue;
    std::vector<Choice> choices;
    for (int machines = 1; machines <= level_.machines; ++machines)
      choices.push_back(choose(first, last, machines, splits));
    best_(first, last) = std::move(choices);
  }
}

Level::Choice Level::choose(int first, int last, int machines, const std::vector<int>& splits) const {
  Choice best;
  const auto consider = [&](double time_s, int split, int replicas) {
    if (time_s < best.time_s) best = {time_s, split, replicas, machines - replicas};
  };
  for (int replicas = 1; replicas <= (rules_.replicas ? machines : 1); ++replicas) {
    // Machines that nobody needs stay unused before the first stage, where they cost no memory.
    if (!rules_.as_published || replicas == machines)
      consider(stage_s(first, last, replicas, machines, true), first, replicas);
    if (replicas == machines) break;
    for (const int k : splits) {
      const double before_s = best_(first, k)[at(machines - replicas - 1)].time_s;
      if (before_s >= best.time_s) continue;
      consider(std::max(before_s, stage_s(k, last, replicas, machines, false)), k, replicas);
    }
  }
  return best;
}

double Level::stage_s(int first, int last, int replicas, int machines_so_far, bool opens) const {
  if (rules_.memory_bytes != kUnlimitedMemory &&
      held_bytes(first, last, replicas, machines_so_far) > static_cast<double>(rules_.memory_bytes))
    return kInfinity;
  const bool forgiven = rules_.as_published && opens;
  const double parameter_bytes = states_[at(last)].parameter_bytes - states_[at(first)].parameter_bytes;
  const double stage_s = pipedream_stage_s(inner_s_(first, last), parameter_bytes / (forgiven ? machines_inside_ : 1),
                                           replicas, level_.bandwidth_bytes_per_s);
  if (!rules_.activations || forgiven) return stage_s;
  const double crossing_bytes = std::max(states_[at(first)].crossing_bytes, states_[at(last)].crossing_bytes);
  return std::max(stage_s, 2 * crossing_bytes / (level_.bandwidth_bytes_per_s * replicas));
}

double Level::held_bytes(int first, int last, int replicas, int machines_so_far) const {
  const PipedreamState &inner = states_[at(first)], &outer = states_[at(last)];
  const int later = (level_.machines - machines_so_far + replicas - 1) / replicas;
  return (later + (rules_.as_published ? 0 : 1)) *
         (outer.output_bytes - inner.output_bytes + outer.parameter_bytes - inner.parameter_bytes);
}

std::vector<PipedreamStage> Level::stages(int first, int last) const {
  std::vector<PipedreamStage> stages;
  for (int machines = level_.machines; last != first;) {
    const Choice& choice = best_(first, last)[at(machines - 1)];
    stages.push_back({choice.split, last, choice.replicas});
    last = choice.split;
    machines = choice.machines_before;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

/// The states within each, ascending.
std::vector<std::vector<int>> contained_states(const std::vector<PipedreamState>& states) {
  std::vector<std::vector<int>> contained(states.size());
  for (std::size_t j = 0; j < states.size(); ++j)
    for (std::size_t i = 0; i < j; ++i)
      if (contains(states[j], states[i])) contained[j].push_back(static_cast<int>(i));
  return contained;
}

Pairs<double> compute_times(const std::vector<PipedreamState>& states) {
  Pairs<double> times(states.size(), 0);
  for (int i = 0; i < static_cast<int>(states.size()); ++i)
    for (int j = i; j < static_cast<int>(states.size()); ++j)
      times(i, j) = states[at(j)].compute_s - states[at(i)].compute_s;
  return times;
}

class Placement {
 public:
  Placement(const std::vector<PipedreamState>& states, const PipedreamPlan& plan,
            const std::vector<PipedreamLevel>& levels)
      : states_(states), plan_(plan), levels_(levels) {}

  /// Deals the level's machines inside `machines` of the next to the level's stages within `outer`.
  void place(int level, const PipedreamStage& outer, const std::vector<int>& machines) {
    int used = 0;
    for (const PipedreamStage& stage : plan_.levels[at(level)]) {
      if (stage.first < outer.first || stage.last > outer.last) continue;
      std::vector<int> inside;
      for (int r = used; r < used + stage.replicas; ++r)
        for (const int machine : machines) inside.push_back(machine * levels_[at(level)].machines + r);
      used += stage.replicas;
      if (level > 0)
        place(level - 1, stage, inside);
      else
        add(stage, inside);
    }
  }
  [[nodiscard]] std::vector<Stage> stages() && {
    forward_.insert(forward_.end(), backward_.begin(), backward_.end());
    return std::move(forward_);
  }

 private:
  void add(const PipedreamStage& stage, const std::vector<Rank>& owners) {
    const auto layers = layers_between(states_[at(stage.first)], states_[at(stage.last)]);
    const int index = static_cast<int>(forward_.size());
    forward_.push_back({Work::forward, index, layers, owners});
    backward_.push_back({Work::backward, index, layers, owners});
  }

  const std::vector<PipedreamState>& states_;
  const PipedreamPlan& plan_;
  const std::vector<PipedreamLevel>& levels_;
  std::vector<Stage> forward_, backward_;
};

}  // namespace

bool are_pipedream_levels(const Cluster& cluster) {
  const int ranks = static_cast<int>(cluster.ranks.size()), nodes = static_cast<int>(cluster.node_names.size());
  if (ranks % nodes != 0) return false;
  for (Rank r = 0; r < ranks; ++r)
    if (cluster.ranks[at(r)].node != r / (ranks / nodes)) return false;
  return true;
}

std::vector<PipedreamLevel> pipedream_levels(const Cluster& cluster) {
  const int ranks = static_cast<int>(cluster.ranks.size()), nodes = static_cast<int>(cluster.node_names.size());
  if (!are_pipedream_levels(cluster))
    throw infeasible(text("PipeDream's planner knows only nodes of equally many ranks, numbered node by node, not ",
                          ranks, " ranks as they stand on ", nodes, " nodes: choose another cost"));
  const LinkClass &inside = cluster.intra_node, &between = cluster.inter_node;
  if (nodes == 1) return {{ranks, inside.bandwidth_bytes_per_s}};
  if (nodes == ranks) return {{nodes, between.bandwidth_bytes_per_s}};
  return {{ranks / nodes, inside.bandwidth_bytes_per_s}, {nodes, between.bandwidth_bytes_per_s}};
}

double pipedream_stage_s(double time_s, double parameter_bytes, int replicas, double bandwidth_bytes_per_s) {
  return (time_s + 4 * (replicas - 1) * parameter_bytes / (bandwidth_bytes_per_s * replicas)) / replicas;
}

PipedreamPlan solve_pipedream_levels(const std::vector<PipedreamState>& states,
                                     const std::vector<PipedreamLevel>& levels, const PipedreamRules& rules) {
  if (levels.size() > 1 && rules.memory_bytes != kUnlimitedMemory && !rules.as_published)
    throw infeasible(
        "PipeDream's planner counts memory within one level only: leave memory unlimited, or as published");
  const int full = static_cast<int>(states.size()) - 1;
  const auto contained = contained_states(states);
  Pairs<double> inner_s = compute_times(states);
  std::vector<Level> solved;
  int machines_inside = 1;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    Level level(states, levels[l], rules, inner_s, machines_inside);
    // Only the outermost level is sure to begin at the first layer.
    for (int first = 0; first < (l + 1 == levels.size() ? 1 : full); ++first) level.solve(first, contained);
    for (int i = 0; i < full; ++i)
      for (int j = i + 1; j <= full; ++j) inner_s(i, j) = level.time_s(i, j);
    machines_inside = levels[l].machines;
    solved.push_back(std::move(level));
  }
  PipedreamPlan plan;
  plan.time_s = solved.back().time_s(0, full);
  if (plan.time_s == kInfinity) return plan;
  plan.levels.resize(levels.size());
  std::vector<PipedreamStage> outer{{0, full, 1}};
  for (std::size_t l = levels.size(); l-- > 0;) {
    for (const PipedreamStage& stage : outer)
      for (const PipedreamStage& inside : solved[l].stages(stage.first, stage.last)) plan.levels[l].push_back(inside);
    outer = plan.levels[l];
  }
  return plan;
}

std::vector<Stage> stages_from_pipedream(const std::vector<PipedreamState>& states, const PipedreamPlan& plan,
                                         const std::vector<PipedreamLevel>& levels) {
  Placement placement(states, plan, levels);
  placement.place(static_cast<int>(levels.size()) - 1, {0, static_cast<int>(states.size()) - 1, 1}, {0});
  return std::move(placement).stages();
}

}  // namespace sluice
