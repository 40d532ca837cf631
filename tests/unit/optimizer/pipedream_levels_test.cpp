#include "optimizer/solver/pipedream_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/import/pipedream.h"
#include "pipedream_results.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::PipedreamResult;

Profile profile_of(const std::string& name) {
  return import_pipedream(testing::kPipedreamFolder + name + ".graph.txt").profile;
}

/// Without Inception: 221,565 states, and one run.
std::vector<PipedreamResult> results_of_small_lattices() {
  std::vector<PipedreamResult> results = testing::pipedream_results();
  std::erase_if(results, [](const PipedreamResult& result) { return result.profile == "inception_v3"; });
  return results;
}

using LayerSet = std::vector<bool>;

/// By layer: itself and all layers that it needs, directly or through others.
std::vector<LayerSet> needed_by_each(const Model& model) {
  std::vector<LayerSet> needed;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    LayerSet& own = needed.emplace_back(model.layers.size());
    own[l] = true;
    for (const TensorId t : model.needs[l].forward)
      if (const LayerId producer = model.tensors[at(t)].producer; producer != kDataset)
        for (std::size_t m = 0; m < l; ++m) own[m] = own[m] || needed[at(producer)][m];
  }
  return needed;
}

/// The sets to which walks from the first layer lead: each step adds a reader of a layer inside, and all that it needs.
/// With several sources they are not all ideals (GNMT: 99 of 561).
std::set<LayerSet> walked_sets(const Model& model, const std::vector<LayerSet>& needed) {
  const auto consumers = consumers_by_tensor(model);
  std::set<LayerSet> walked{needed.front()};
  std::vector<LayerSet> queue{needed.front()};
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (std::size_t t = 0; t < consumers.size(); ++t) {
      if (model.tensors[t].producer == kDataset || !queue[i][at(model.tensors[t].producer)]) continue;
      for (const LayerId consumer : consumers[t]) {
        LayerSet larger = queue[i];
        for (std::size_t l = 0; l < larger.size(); ++l) larger[l] = larger[l] || needed[at(consumer)][l];
        if (walked.insert(larger).second) queue.push_back(std::move(larger));
      }
    }
  return walked;
}

/// What the published code takes for a set's output: its last layers', and all that leaves the layers
/// needed by one of the last, even if only for layers inside the set.
double published_crossing_bytes(const Model& model, const std::vector<LayerSet>& needed, const LayerSet& set) {
  const auto consumers = consumers_by_tensor(model);
  std::vector<std::size_t> last;
  for (std::size_t l = 0; l < set.size(); ++l) {
    bool is_last = set[l];
    for (std::size_t m = l + 1; m < set.size(); ++m) is_last = is_last && !(set[m] && needed[m][l]);
    if (is_last) last.push_back(l);
  }
  double bytes = 0;
  for (std::size_t t = 0; t < consumers.size(); ++t) {
    const LayerId producer = model.tensors[t].producer;
    if (producer == kDataset) continue;
    const auto counts = [&](std::size_t l) {
      const auto elsewhere = [&](LayerId consumer) { return !needed[l][at(consumer)]; };
      return at(producer) == l ||
             (needed[l][at(producer)] && std::any_of(consumers[t].begin(), consumers[t].end(), elsewhere));
    };
    if (std::any_of(last.begin(), last.end(), counts)) bytes += static_cast<double>(model.tensors[t].bytes);
  }
  return bytes;
}

/// PipeDream's view of a graph, with its errors.
std::vector<PipedreamState> states_as_published(const Profile& profile) {
  const auto needed = needed_by_each(profile.model);
  std::vector<PipedreamState> states = pipedream_states(profile, true);
  std::set<LayerSet> seen = walked_sets(profile.model, needed);
  seen.insert(states.front().layers);
  std::erase_if(states, [&](const PipedreamState& state) { return !seen.contains(state.layers); });
  for (PipedreamState& state : states)
    state.crossing_bytes = published_crossing_bytes(profile.model, needed, state.layers);
  states.back().crossing_bytes = 0;
  return states;
}

void expect_same(double time_s, double expected_s, const std::string& what) {
  if (std::isinf(expected_s))
    EXPECT_EQ(time_s, expected_s) << what;
  else
    EXPECT_NEAR(time_s, expected_s, 1e-4 * expected_s) << what;
}

TEST(PipedreamLevels, every_published_figure_comes_out_with_the_published_errors) {
  std::map<std::string, std::vector<PipedreamState>> states;
  int runs = 0;
  for (PipedreamResult& result : results_of_small_lattices()) {
    std::vector<PipedreamState>& of_profile = states[result.profile];
    if (of_profile.empty()) of_profile = states_as_published(profile_of(result.profile));
    EXPECT_EQ(static_cast<int>(of_profile.size()) - 1, result.states) << result.name();
    result.rules.as_published = true;
    expect_same(solve_pipedream_levels(of_profile, result.levels, result.rules).time_s, result.plan.time_s,
                result.name());
    ++runs;
  }
  EXPECT_EQ(runs, 146);
}

struct Right {
  double milliseconds;
  const char* why;
};
constexpr const char* kExactly = "fewer machines are faster: all 16 cut at dear places";
constexpr const char* kAllOfThem = "fewer machines fit: the first of 16 stages holds too much";
constexpr const char* kWeights =
    "the weights of a stage on several nodes cross each NIC whole, whichever rank sends them";
constexpr const char* kOpening = "the weights likewise, and the first stage waits for its activations, too";
constexpr const char* kInside = "tensors that stay inside a stage cross no link";
constexpr const char* kHeld = "a stage holds the micro-batch in work, too: as published its last stage holds nothing";
constexpr const char* kMoreSets =
    "462 sets of layers more may be cut off, its walk from one of three sources misses them";

/// Where the published code errs.
const std::map<std::string, Right> kRight = {
    {"alexnet n=16 b=1.25e9 straight,comm", {53.1628, kExactly}},
    {"alexnet n=4,4 b=12.5e9,1.25e9 ", {6.37863, kWeights}},
    {"vgg16 n=4 b=1.25e9 mem", {211.982, kHeld}},
    {"vgg16 n=4 b=1.25e9 straight,mem", {221.86, kHeld}},
    {"vgg16 n=8 b=1.25e9 mem", {102.238, kHeld}},
    {"vgg16 n=16 b=1.25e9 mem", {50.415, kHeld}},
    {"vgg16 n=4,4 b=12.5e9,1.25e9 ", {47.2301, kWeights}},
    {"vgg16 n=4,4 b=12.5e9,1.25e9 comm", {82.2084, kOpening}},
    {"vgg16 n=16 b=1.25e9 straight,mem", {159.531, kAllOfThem}},
    {"squeezenet1_0 n=16 b=1.25e9 straight,mem", {51.094, kAllOfThem}},
    {"gnmt n=16 b=1.25e9 straight,comm", {19.285, kInside}},
    {"gnmt n=4,4 b=12.5e9,1.25e9 ", {9.92547, kMoreSets}},
    {"gnmt n=4,4 b=12.5e9,1.25e9 comm", {10.0663, kMoreSets}},
    {"resnet18 n=16 b=1.25e9 comm", {24.3168, kInside}},
    {"resnet18 n=4,4 b=12.5e9,1.25e9 ", {17.1615, kWeights}},
    {"resnet18 n=4,4 b=12.5e9,1.25e9 comm", {41.1042, kOpening}},
    {"squeezenet1_0 n=4 b=1.25e9 mem", {72.925, kHeld}},
    {"squeezenet1_0 n=4,4 b=12.5e9,1.25e9 ", {18.2839, kWeights}},
    {"squeezenet1_0 n=4,4 b=12.5e9,1.25e9 comm", {20.8608, kOpening}},
    {"resnet50 n=4 b=1.25e9 straight,comm", {249.765, kInside}},
    {"resnet50 n=4 b=1.25e9 mem", {156.841, kHeld}},
    {"resnet50 n=4 b=1.25e9 straight,mem", {156.841, kHeld}},
    {"resnet50 n=8 b=1.25e9 straight,comm", {249.765, kInside}},
    {"resnet50 n=8 b=1.25e9 mem", {73.647, kHeld}},
    {"resnet50 n=8 b=1.25e9 straight,mem", {73.647, kHeld}},
    {"resnet50 n=16 b=1.25e9 straight,comm", {249.765, kInside}},
    {"resnet50 n=16 b=1.25e9 mem", {38.147, kHeld}},
    {"resnet50 n=16 b=1.25e9 straight,mem", {38.147, kHeld}},
    {"resnet50 n=4,4 b=12.5e9,1.25e9 comm", {82.2084, kOpening}},
    {"resnet101 n=4 b=1.25e9 straight,comm", {132.752, kInside}},
    {"resnet101 n=4 b=1.25e9 mem", {115.821, kHeld}},
    {"resnet101 n=4 b=1.25e9 straight,mem", {115.821, kHeld}},
    {"resnet101 n=4,4 b=15750000000,7000000000 comm", {28.401, kOpening}},
};

TEST(PipedreamLevels, the_published_figures_are_right_but_for_known_errors) {
  std::map<std::string, std::vector<PipedreamState>> states;
  for (const PipedreamResult& result : results_of_small_lattices()) {
    if (result.levels.size() > 1 && result.rules.memory_bytes != kUnlimitedMemory) continue;
    std::vector<PipedreamState>& of_profile = states[result.profile];
    if (of_profile.empty()) of_profile = pipedream_states(profile_of(result.profile), true);
    const auto erring = kRight.find(result.name());
    const double expected_s = erring == kRight.end() ? result.plan.time_s : erring->second.milliseconds * 1e-3;
    expect_same(solve_pipedream_levels(of_profile, result.levels, result.rules).time_s, expected_s,
                result.name() + (erring == kRight.end() ? "" : text(": ", erring->second.why)));
  }
}

/// Every pipeline of every level, one by one.
double least_time_s(const std::vector<PipedreamState>& states, const std::vector<PipedreamLevel>& levels,
                    const PipedreamRules& rules, int level, int first, int last, int machines) {
  const PipedreamState &begin = states[at(first)], &end = states[at(last)];
  if (level < 0) return end.compute_s - begin.compute_s;
  if (first == last) return 0;
  const double bandwidth = levels[at(level)].bandwidth_bytes_per_s;
  double least = std::numeric_limits<double>::infinity();
  for (int k = first; k < last; ++k)
    for (int replicas = 1; replicas <= (rules.replicas ? machines : std::min(machines, 1)); ++replicas) {
      if (!contains(states[at(k)], begin) || !contains(end, states[at(k)])) continue;
      const PipedreamState& split = states[at(k)];
      const int later = levels[at(level)].machines - machines;
      const double copies = 1 + std::ceil(static_cast<double>(later) / replicas);
      const double held = end.output_bytes - split.output_bytes + end.parameter_bytes - split.parameter_bytes;
      if (rules.memory_bytes != kUnlimitedMemory && copies * held > static_cast<double>(rules.memory_bytes)) continue;
      const double inner_s =
          least_time_s(states, levels, rules, level - 1, k, last, level > 0 ? levels[at(level - 1)].machines : 0);
      double stage_s = pipedream_stage_s(inner_s, end.parameter_bytes - split.parameter_bytes, replicas, bandwidth);
      if (rules.activations)
        stage_s = std::max(
            {stage_s, 2 * split.crossing_bytes / bandwidth / replicas, 2 * end.crossing_bytes / bandwidth / replicas});
      least =
          std::min(least, std::max(stage_s, least_time_s(states, levels, rules, level, first, k, machines - replicas)));
    }
  return least;
}

TEST(PipedreamLevels, equals_exhaustive_search_on_random_graphs) {
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    testing::RandomCase random(seed);
    const Profile profile = random.profile(random.between(2, 5), random.chance(0.5));
    const std::vector<PipedreamState> states = pipedream_states(profile, random.chance(0.7));
    std::vector<PipedreamLevel> levels;
    const bool nested = random.chance(0.5);
    for (int level = 0; level < (nested ? 2 : 1); ++level)
      levels.push_back({random.between(1, nested ? 2 : 5), static_cast<double>(random.between(1, 50))});
    PipedreamRules rules;
    rules.replicas = random.chance(0.8);
    rules.activations = random.chance(0.5);
    if (!nested && random.chance(0.4)) rules.memory_bytes = random.between(50, 500);
    const double expected_s = least_time_s(states, levels, rules, static_cast<int>(levels.size()) - 1, 0,
                                           static_cast<int>(states.size()) - 1, levels.back().machines);
    const PipedreamPlan plan = solve_pipedream_levels(states, levels, rules);
    if (std::isinf(expected_s)) {
      EXPECT_EQ(plan.time_s, expected_s) << "seed " << seed;
      continue;
    }
    EXPECT_NEAR(plan.time_s, expected_s, 1e-9 * expected_s) << "seed " << seed;
  }
}

TEST(PipedreamLevels, published_plans_become_stages_of_the_published_time) {
  for (const PipedreamResult& result : results_of_small_lattices()) {
    if (result.levels.size() > 1 || result.rules.activations || std::isinf(result.plan.time_s)) continue;
    if (result.profile != "alexnet" && result.profile != "vgg16") continue;  // of the others we do not know the states
    const Profile profile = profile_of(result.profile);
    const auto stages = stages_from_pipedream(pipedream_states(profile, false), result.plan, result.levels);
    double time_s = 0;
    for (std::size_t s = 0; s < stages.size() / 2; ++s) {
      EXPECT_EQ(stages[s].layers, stages[stages.size() / 2 + s].layers);
      double compute_s = 0, parameter_bytes = 0;
      for (const LayerId layer : stages[s].layers) {
        compute_s += profile.costs[at(layer)].forward_s + profile.costs[at(layer)].backward_input_s;
        parameter_bytes += static_cast<double>(profile.costs[at(layer)].parameter_bytes);
      }
      time_s = std::max(time_s, pipedream_stage_s(compute_s, parameter_bytes, static_cast<int>(stages[s].owners.size()),
                                                  result.levels.front().bandwidth_bytes_per_s));
    }
    expect_same(time_s, result.plan.time_s, result.name());
  }
}

TEST(PipedreamLevels, a_pipeline_inside_several_nodes_keeps_each_microbatch_in_one) {
  const Profile profile = testing::RandomCase(1).profile(3, true);
  PipedreamPlan plan;
  plan.levels = {{{0, 1, 1}, {1, 2, 3}, {2, 3, 2}}, {{0, 2, 2}, {2, 3, 1}}};
  const auto stages = stages_from_pipedream(pipedream_states(profile, false), plan, {{4, 1.0}, {3, 1.0}});
  ASSERT_EQ(stages.size(), 6U);
  EXPECT_EQ(stages[0].owners, (std::vector<Rank>{0, 4}));
  EXPECT_EQ(stages[1].owners, (std::vector<Rank>{1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(stages[2].owners, (std::vector<Rank>{8, 9}));
  EXPECT_EQ(stages[5].work, Work::backward);
  EXPECT_EQ(stages[5].index, 2);
  for (int m = 0; m < 6; ++m) EXPECT_EQ(owner(stages[0], m) / 4, owner(stages[1], m) / 4);
}

TEST(PipedreamLevels, levels_follow_from_the_cluster) {
  const LinkClass fast{0, 12.5e9}, slow{0, 1.25e9};
  EXPECT_EQ(pipedream_levels(uniform_cluster(1, 8, fast, slow)), (std::vector<PipedreamLevel>{{8, 12.5e9}}));
  EXPECT_EQ(pipedream_levels(uniform_cluster(8, 1, fast, slow)), (std::vector<PipedreamLevel>{{8, 1.25e9}}));
  EXPECT_EQ(pipedream_levels(uniform_cluster(2, 4, fast, slow)),
            (std::vector<PipedreamLevel>{{4, 12.5e9}, {2, 1.25e9}}));
  Cluster uneven = uniform_cluster(2, 2, fast, slow);
  uneven.ranks[1].node = 1;
  EXPECT_THROW((void)pipedream_levels(uneven), Error);
}

TEST(PipedreamLevels, refuses_memory_limits_on_several_levels) {
  const auto states = pipedream_states(testing::RandomCase(1).profile(3, true), false);
  PipedreamRules rules;
  rules.memory_bytes = 1;
  EXPECT_THROW((void)solve_pipedream_levels(states, {{2, 1.0}, {2, 1.0}}, rules), Error);
}

}  // namespace
}  // namespace sluice
