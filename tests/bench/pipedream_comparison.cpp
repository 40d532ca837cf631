/// Prints the tables of docs/planner-comparison.md: for each of PipeDream's profiles on 4, 8 and 16 nodes and on 4
/// nodes of 4 ranks, what PipeDream's planner and ours make of it, with replicas and without.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "optimizer/import/pipedream.h"
#include "optimizer/planner/solve.h"
#include "optimizer/solver/pipedream_levels.h"
#include "optimizer/solver/pipedream_price.h"

namespace sluice {
namespace {

constexpr LinkClass kInside{0, 12.5e9}, kBetween{0, 1.25e9};  // 100 and 10 Gb/s

struct Case {
  Profile profile;
  Cluster cluster;
  std::string ranks;
  Pricing pricing;

  [[nodiscard]] Problem problem(const SearchSpace& space) const { return {profile, cluster, pricing, space}; }
  [[nodiscard]] int most() const { return static_cast<int>(cluster.ranks.size()); }
  [[nodiscard]] double price(const std::vector<Stage>& stages) const {
    return stages.empty() ? std::numeric_limits<double>::infinity()
                          : bottleneck(cluster, loads_of(profile, cluster, stages, pricing), pricing).seconds;
  }
};

struct Found {
  double price = std::numeric_limits<double>::infinity();
  bool optimal = false;
};

std::string milliseconds(const Found& found) {
  char cell[32];
  std::snprintf(cell, sizeof cell, "%.3f%s", found.price * 1e3, found.optimal ? "" : "°");
  return cell;
}

Found least(const Case& c, const SearchSpace& space) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const Problem problem = c.problem(space);
  const Solution solution = solve(problem, Method::dp, deadline).solution;
  return {solution.price, is_optimal(solution)};
}

struct Theirs {
  double time_s = 0;  ///< by its cost
  double price = 0;   ///< by ours
};

Theirs theirs(const Case& c, const std::vector<PipedreamState>& states, bool replicas, bool activations) {
  const auto levels = pipedream_levels(c.cluster);
  PipedreamRules rules;
  rules.replicas = replicas;
  rules.activations = activations;
  rules.as_published = true;
  const PipedreamPlan plan = solve_pipedream_levels(states, levels, rules);
  return {plan.time_s, c.price(stages_from_pipedream(states, plan, levels))};
}

void print_row(const Case& c, bool replicas) {
  // Inception has 221,565 sets of layers where one may cut, too many for both: the order's prefixes serve.
  const bool ideals = c.profile.model.name != "inception_v3";
  const auto states = pipedream_states(c.profile, ideals);
  const Theirs plain = theirs(c, states, replicas, false), careful = theirs(c, states, replicas, true);
  const int most = replicas ? c.most() : 1;
  const Found joint = least(c, {.cuts = Cuts::joint, .most_replicas = most, .ideals = ideals});
  const Found independent = least(c, {.cuts = Cuts::independent, .most_replicas = most});
  const double best = std::min({joint.price, independent.price, plain.price, careful.price});
  double total_s = 0;
  for (const LayerCost& cost : c.profile.costs)
    total_s += cost.forward_s + cost.backward_input_s + cost.backward_weight_s;
  std::printf("| %s | %s | %.3f | %.3f | %.3f | %.3f | %s | %s | %.3f | %.3f |\n", c.profile.model.name.c_str(),
              c.ranks.c_str(), plain.time_s * 1e3, plain.price * 1e3, careful.time_s * 1e3, careful.price * 1e3,
              milliseconds(joint).c_str(), milliseconds(independent).c_str(), best * 1e3, total_s / c.most() * 1e3);
  std::fflush(stdout);
}

void print_table(const std::string& folder, int microbatches, bool replicas) {
  std::printf("\n## %s\n\n", replicas ? "With replicas" : "Without replicas");
  std::printf(
      "| profile | ranks | T | its plan here | T with activations | its plan here | joint | independent | best "
      "| ideal |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const char* name :
       {"alexnet", "vgg16", "gnmt", "resnet18", "resnet50", "resnet101", "squeezenet1_0", "inception_v3"})
    for (const auto& [nodes, per_node] : {std::pair{4, 1}, std::pair{8, 1}, std::pair{16, 1}, std::pair{4, 4}})
      print_row({import_pipedream(folder + "/" + name + ".graph.txt").profile,
                 uniform_cluster(nodes, per_node, kInside, kBetween),
                 per_node == 1 ? std::to_string(nodes) : std::to_string(nodes) + "x" + std::to_string(per_node),
                 {"1f1b", microbatches}},
                replicas);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: pipedream_comparison FOLDER MICROBATCHES\n");
    return 2;
  }
  for (const bool replicas : {true, false}) sluice::print_table(argv[1], std::atoi(argv[2]), replicas);
  return 0;
}
