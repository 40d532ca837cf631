#include "optimizer/solver/pipedream_price.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "optimizer/solver/pipedream_levels.h"
#include "optimizer/solver/search.h"

namespace sluice {

double PipedreamPrice::price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  if (rank.memory_bytes != kUnlimitedMemory && cost_->memory_bytes(load, seat) > rank.memory_bytes) return kInfinity;
  return pipedream_stage_s(load.compute_s / rank.speed, load.updated_bytes, seat.replicas, bandwidth_bytes_per_s_);
}

double PipedreamPrice::floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const {
  // With x = 1/r the price is x (time + q) - x x q: concave, so least at one of the ends.
  const auto with = [&](int replicas) {
    return pipedream_stage_s(load.compute_s / rank.speed, load.updated_bytes, replicas, bandwidth_bytes_per_s_);
  };
  return std::min(with(1), with(most_replicas));
}

namespace {

Solution solve_one_level(const Problem& problem, const PipedreamLevel& level, Deadline deadline) {
  const WorkerCost cost(problem.profile, problem.cluster, problem.pricing);
  SearchScope scope = whole_cluster(problem.cluster);
  scope.deadline = deadline;
  const Pipeline found = search(work_graph(problem.profile.model, problem.space),
                                PipedreamPrice(cost, level.bandwidth_bytes_per_s), problem.space, scope);
  return {stages_of(found.workers), found.price, found.lower_bound, found.timed_out};
}

/// Choices that its recurrences weigh up.
double choices(std::size_t states, const std::vector<PipedreamLevel>& levels) {
  const double count = static_cast<double>(states);
  double sum = 0;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const double machines = levels[l].machines;
    sum += machines * machines * count * count * (l + 1 < levels.size() ? count / 12 : 0.25);
  }
  return sum;
}

Solution solve_levels(const Problem& problem, const std::vector<PipedreamLevel>& levels, bool activations) {
  const SearchSpace& space = problem.space;
  const bool unlimited = space.most_replicas >= static_cast<int>(problem.cluster.ranks.size());
  if (space.cuts != Cuts::joint || space.recompute || space.exactly || !(unlimited || space.most_replicas == 1))
    throw infeasible(
        "on nodes of several ranks, and with activations, PipeDream's cost is planned with joint cuts only, at most "
        "all "
        "ranks, without recomputation, and with replicas unlimited or none: leave --exactly out, and use --replicas 1 "
        "or "
        "any");
  PipedreamRules rules;
  rules.replicas = unlimited;
  rules.activations = activations;
  const auto states = pipedream_states(problem.profile, space.ideals, kMostPipedreamStates);
  if (choices(states.size(), levels) > kMostPipedreamChoices)
    throw infeasible(text(states.size(), " sets of layers on ", problem.cluster.ranks.size(),
                          " ranks are too many for PipeDream's recurrences: use fewer ranks, or --stages intervals"));
  const PipedreamPlan plan = solve_pipedream_levels(states, levels, rules);
  return {stages_from_pipedream(states, plan, levels), plan.time_s, plan.time_s, false};
}

}  // namespace

Solution solve_pipedream(const Problem& problem, bool activations, Deadline deadline) {
  const std::vector<PipedreamLevel> levels = pipedream_levels(problem.cluster);
  return levels.size() == 1 && !activations ? solve_one_level(problem, levels.front(), deadline)
                                            : solve_levels(problem, levels, activations);
}

Solution pipedream_candidate(const Problem& problem) {
  constexpr double kMostChoices = 1e8;
  Solution best;
  const int ranks = static_cast<int>(problem.cluster.ranks.size()), most = problem.space.most_replicas;
  if (!are_pipedream_levels(problem.cluster) || (most > 1 && most < ranks) || problem.space.exactly) return best;
  const std::vector<PipedreamLevel> levels = pipedream_levels(problem.cluster);
  const std::vector<PipedreamState> states = pipedream_states(problem.profile, false);
  if (choices(states.size(), levels) > kMostChoices) return best;
  PipedreamRules rules;
  rules.replicas = most > 1;
  for (const bool activations : {false, true})
    for (const bool as_published : {false, true}) {
      rules.activations = activations;
      rules.as_published = as_published;
      const PipedreamPlan plan = solve_pipedream_levels(states, levels, rules);
      if (plan.levels.empty()) continue;
      std::vector<Stage> stages = stages_from_pipedream(states, plan, levels);
      const double price = price_of(problem, stages);
      if (price < best.price) best = {std::move(stages), price, 0, false};
    }
  return best;
}

}  // namespace sluice
