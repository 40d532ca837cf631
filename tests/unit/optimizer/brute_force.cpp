#include "brute_force.h"

#include <cmath>
#include <numeric>

namespace sluice::testing {
namespace {

using Positions = std::vector<int>;             // by layer
using Dealt = std::vector<int>;                 // by position: the worker
using Groups = std::vector<std::vector<Rank>>;  // by worker

/// Calls `visit` with every vector of `digits` numbers 0..base-1.
template <typename Visit>
void for_each_number(int digits, int base, const Visit& visit) {
  std::vector<int> number(at(digits), 0);
  for (;;) {
    visit(number);
    int digit = 0;
    while (digit < digits && ++number[at(digit)] == base) number[at(digit++)] = 0;
    if (digit == digits) return;
  }
}

bool in_order(const Model& model, const Positions& positions, bool ideals) {
  for (LayerId layer = 0; layer < std::ssize(positions); ++layer) {
    if (!ideals && layer > 0 && positions[at(layer - 1)] > positions[at(layer)]) return false;
    for (const TensorId tensor : model.needs[at(layer)].forward) {
      const LayerId producer = model.tensors[at(tensor)].producer;
      if (producer != kDataset && positions[at(producer)] > positions[at(layer)]) return false;
    }
  }
  return true;
}

std::vector<Positions> all_positions(const Problem& problem, int workers) {
  const Model& model = problem.profile.model;
  std::vector<Positions> all;
  for_each_number(static_cast<int>(model.layers.size()), workers, [&](const Positions& positions) {
    if (in_order(model, positions, problem.space.ideals)) all.push_back(positions);
  });
  return all;
}

std::vector<Dealt> all_deals(int workers, bool free) {
  Dealt dealt(at(workers));
  std::iota(dealt.begin(), dealt.end(), 0);
  std::vector<Dealt> all{dealt};
  while (free && std::next_permutation(dealt.begin(), dealt.end())) all.push_back(dealt);
  return all;
}

/// Every way to give each worker some ranks.
std::vector<Groups> all_groups(const Problem& problem, int workers) {
  const std::vector<RankSpec>& ranks = problem.cluster.ranks;
  std::vector<Groups> all;
  for_each_number(static_cast<int>(ranks.size()), workers + 1, [&](const std::vector<int>& worker_of) {
    Groups groups(at(workers));
    bool idle = false;
    for (Rank rank = 0; rank < std::ssize(ranks); ++rank) {
      if (worker_of[at(rank)] == workers)
        idle = true;
      else
        groups[at(worker_of[at(rank)])].push_back(rank);
    }
    if (idle && problem.space.exactly) return;
    for (std::vector<Rank>& group : groups) {
      if (group.empty() || std::ssize(group) > problem.space.most_replicas) return;
      std::stable_sort(group.begin(), group.end(), [&](Rank a, Rank b) {
        return std::pair(-ranks[at(a)].speed, ranks[at(a)].node) < std::pair(-ranks[at(b)].speed, ranks[at(b)].node);
      });
    }
    all.push_back(groups);
  });
  return all;
}

/// Where everything is, by layer or position.
struct Choice {
  Positions forward, input, weight;
  Dealt input_dealt, weight_dealt;
  std::vector<int> recomputes;  // by layer: 0 or 1
};

bool every_worker_works(const Choice& choice, int workers) {
  std::vector<int> works(at(workers), 0);
  for (const int position : choice.forward) works[at(position)] = 1;
  for (const int position : choice.input) works[at(choice.input_dealt[at(position)])] = 1;
  for (const int position : choice.weight) works[at(choice.weight_dealt[at(position)])] = 1;
  return std::count(works.begin(), works.end(), 1) == workers;
}

void add_stages(std::vector<Stage>& stages, Work work, const Positions& positions, const Dealt& dealt,
                const Groups& groups) {
  for (int position = 0; position < std::ssize(dealt); ++position) {
    Stage stage{work, position, {}, groups[at(dealt[at(position)])]};
    for (LayerId layer = 0; layer < std::ssize(positions); ++layer)
      if (positions[at(layer)] == position) stage.layers.push_back(layer);
    if (!stage.layers.empty()) stages.push_back(stage);
  }
}

std::vector<Stage> stages_of(const Choice& choice, const Groups& groups, Cuts cuts) {
  std::vector<Stage> stages;
  Dealt straight(groups.size());
  std::iota(straight.begin(), straight.end(), 0);
  add_stages(stages, Work::forward, choice.forward, straight, groups);
  if (cuts == Cuts::three) {
    add_stages(stages, Work::backward_input, choice.input, choice.input_dealt, groups);
    add_stages(stages, Work::backward_weight, choice.weight, choice.weight_dealt, groups);
  } else {
    add_stages(stages, Work::backward, choice.input, choice.input_dealt, groups);
  }
  Positions recomputed = choice.input;
  for (std::size_t layer = 0; layer < recomputed.size(); ++layer)
    if (choice.recomputes[layer] == 0) recomputed[layer] = kNone;
  add_stages(stages, Work::recompute, recomputed, choice.input_dealt, groups);
  return stages;
}

/// Calls `visit` with every choice for so many workers; some leave a worker without work.
template <typename Visit>
void for_each_choice(const Problem& problem, int workers, const Visit& visit) {
  const SearchSpace& space = problem.space;
  const std::vector<Positions> positions = all_positions(problem, workers);
  const std::vector<Dealt> deals = all_deals(workers, space.free_backward);
  const int layers = static_cast<int>(problem.profile.model.layers.size());
  for (const Positions& forward : positions)
    for (const Positions& input : space.cuts == Cuts::joint ? std::vector<Positions>{forward} : positions)
      for (const Positions& weight : space.cuts == Cuts::three ? positions : std::vector<Positions>{input})
        for (const Dealt& input_dealt : deals)
          for (const Dealt& weight_dealt : space.cuts == Cuts::three ? deals : std::vector<Dealt>{input_dealt})
            for_each_number(layers, space.recompute ? 2 : 1, [&](const std::vector<int>& recomputes) {
              visit(Choice{forward, input, weight, input_dealt, weight_dealt, recomputes});
            });
}

}  // namespace

Solution brute_force(const Problem& problem) {
  Solution best;
  for (int workers = 1; workers <= std::ssize(problem.cluster.ranks); ++workers) {
    const std::vector<Groups> all = all_groups(problem, workers);
    if (all.empty()) continue;
    for_each_choice(problem, workers, [&](const Choice& choice) {
      if (!every_worker_works(choice, workers)) return;
      for (const Groups& groups : all) {
        std::vector<Stage> stages = stages_of(choice, groups, problem.space.cuts);
        const Loads loads = loads_of(problem.profile, problem.cluster, stages, problem.pricing);
        const double price = bottleneck(problem.cluster, loads, problem.pricing).seconds;
        if (price < best.price) best = {std::move(stages), price, price};
      }
    });
  }
  best.lower_bound = best.price;
  return best;
}

double brute_force_plans(const Problem& problem) {
  const SearchSpace& space = problem.space;
  const int cut_vectors = static_cast<int>(space.cuts) + 1;
  const int backwards = space.cuts == Cuts::three ? 2 : 1;
  double plans = 0;
  for (int workers = 1; workers <= std::ssize(problem.cluster.ranks); ++workers)
    plans += std::pow(all_positions(problem, workers).size(), cut_vectors) *
             std::pow(all_deals(workers, space.free_backward).size(), backwards) *
             static_cast<double>(all_groups(problem, workers).size());
  return space.recompute ? plans * std::pow(2, problem.profile.model.layers.size()) : plans;
}

OwnedProblem random_problem(unsigned seed, double most_plans, const std::function<void(OwnedProblem&)>& adjust) {
  RandomProblem sizes(seed);
  int layers = sizes.between(2, 6), ranks = sizes.between(1, 4);
  for (;;) {
    OwnedProblem owned = RandomProblem(seed).of(layers, ranks);
    adjust(owned);
    if (brute_force_plans(owned.problem()) <= most_plans) return owned;
    --(layers > 2 ? layers : ranks);
  }
}

}  // namespace sluice::testing
