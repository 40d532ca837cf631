#include "optimizer/solver/msr_price.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "core/topological_order.h"
#include "optimizer/import/msr.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using Devices = std::map<int, int>;  ///< node -> device: first the accelerators, then the CPUs

/// The largest load [ms], straight from the file.
double max_load(const Json& json, const Devices& device_of) {
  const int accelerators = json["maxFPGAs"], devices = accelerators + json["maxCPUs"].get<int>();
  std::vector<double> load(at(devices)), bytes(at(devices));
  std::map<int, std::set<int>> touching;  // node -> devices that have it or read it
  std::map<int, double> cost;
  for (const Json& n : json["nodes"]) {
    const int device = device_of.at(n["id"]);
    const bool on_cpu = device >= accelerators;
    load[at(device)] += n[on_cpu ? "cpuLatency" : "fpgaLatency"].get<double>();
    bytes[at(device)] += n.value("size", 0.0);
    touching[n["id"]].insert(device);
    if (!on_cpu && (n["supportedOnFpga"] == 0 || n["supportedOnFpga"] == false)) return kInfinity;
  }
  for (const Json& e : json["edges"]) {
    cost[e["sourceId"]] = e["cost"];
    touching[e["sourceId"]].insert(device_of.at(e["destId"]));
  }
  for (const auto& [node, those] : touching)
    if (those.size() > 1)
      for (const int device : those) load[at(device)] += device < accelerators ? cost[node] : 0;
  for (int device = 0; device < accelerators; ++device)
    if (bytes[at(device)] > json["maxSizePerFPGA"].get<double>()) return kInfinity;
  return *std::max_element(load.begin(), load.end());
}

/// Classes by node; nodes without one have their own.
std::map<int, std::string> classes_of(const Json& json) {
  std::map<int, std::string> classes;
  for (const Json& n : json["nodes"])
    classes[n["id"]] = n.contains("colorClass") ? text("class", n["colorClass"]) : text("node", n["id"]);
  return classes;
}

/// Whether the devices can stand in an order in which no edge between forward nodes leads back. With `mirror`, backward
/// nodes of a class without forward nodes count as forward nodes with their edges turned round.
bool is_pipeline(const Json& json, const Devices& device_of, bool mirror) {
  const auto classes = classes_of(json);
  std::map<int, bool> backward;
  std::set<std::string> with_forward;
  for (const Json& n : json["nodes"]) {
    backward[n["id"]] = n["isBackwardNode"] == true || n["isBackwardNode"] == 1;
    if (!backward[n["id"]]) with_forward.insert(classes.at(n["id"]));
  }
  std::vector<std::vector<int>> successors(json["maxFPGAs"].get<std::size_t>() + json["maxCPUs"].get<std::size_t>());
  const auto add = [&](int from, int to) {
    if (from != to) successors[at(from)].push_back(to);
  };
  for (const Json& e : json["edges"]) {
    const int from = e["sourceId"], to = e["destId"];
    const bool orphan = !with_forward.contains(classes.at(from)) || !with_forward.contains(classes.at(to));
    if (!backward[to]) add(device_of.at(from), device_of.at(to));
    if (mirror && backward[from] && orphan) add(device_of.at(to), device_of.at(from));
  }
  return topological_order(successors).size() == successors.size();
}

Devices devices_of(const Profile& profile, const Solution& solution) {
  Devices device_of;
  for (const Stage& stage : solution.stages)
    for (const LayerId layer : stage.layers)
      device_of[std::stoi(profile.model.layers[at(layer)].name.substr(4))] = stage.owners.at(0);
  return device_of;
}

Solution solve(const Profile& profile, Cuts cuts) {
  return solve_msr({profile, *profile.cluster, {}, {.cuts = cuts}}, kNoDeadline);
}

/// What was found is what the file says it is.
void check(const Json& json, const Profile& profile, const Solution& solution, Cuts cuts) {
  const Devices device_of = devices_of(profile, solution);
  ASSERT_EQ(device_of.size(), json["nodes"].size());
  EXPECT_NEAR(max_load(json, device_of), solution.price * 1e3, 1e-6 * solution.price * 1e3);
  EXPECT_TRUE(is_pipeline(json, device_of, cuts == Cuts::joint));
  EXPECT_LE(solution.lower_bound, solution.price * kRounding);
  if (cuts != Cuts::joint) return;
  std::map<std::string, std::set<int>> devices_of_class;
  for (const auto& [node, name] : classes_of(json)) devices_of_class[name].insert(device_of.at(node));
  for (const auto& [name, devices] : devices_of_class) EXPECT_EQ(devices.size(), 1U) << name;
}

struct Workload {
  const char* name;
  double one_device_ms;  ///< all nodes on one accelerator
  double optimum_ms;     ///< of MSR's dynamic program; Inception's: what we find, which it does not come to
  bool can_do_better_apart;
};

class MsrWorkloads : public testing::TestWithParam<Workload> {
 protected:
  void SetUp() override {
    const std::string path = text("tests/data/dnn-partitioning/throughput-inputs/", GetParam().name, ".json");
    json = Json::parse(std::ifstream(path));
    profile = import_msr(path);
  }
  Json json;
  Profile profile;
};

TEST_P(MsrWorkloads, have_the_known_optimum_with_co_location) {
  const Solution joint = solve(profile, Cuts::joint);
  check(json, profile, joint, Cuts::joint);
  EXPECT_TRUE(is_optimal(joint));
  EXPECT_NEAR(joint.price * 1e3, GetParam().optimum_ms, 6e-6 * GetParam().optimum_ms);
}

TEST_P(MsrWorkloads, are_never_dearer_without_co_location) {
  const Solution apart = solve(profile, Cuts::independent);
  check(json, profile, apart, Cuts::independent);
  EXPECT_LE(apart.price * 1e3, GetParam().optimum_ms * (1 + 6e-6));
  EXPECT_EQ(apart.price * 1e3 < GetParam().optimum_ms * (1 - 6e-6), GetParam().can_do_better_apart);
}

TEST_P(MsrWorkloads, on_one_device_take_the_sum_of_their_times) {
  Stage all{.work = Work::forward, .index = 0, .layers = {}, .owners = {0}};
  for (LayerId layer = 0; layer < std::ssize(profile.model.layers); ++layer) all.layers.push_back(layer);
  const Cluster cluster = with_unlimited_memory(*profile.cluster);
  EXPECT_NEAR(msr_loads(profile, cluster, {all})[0] * 1e3, GetParam().one_device_ms, 1e-5 * GetParam().one_device_ms);
}

INSTANTIATE_TEST_SUITE_P(Throughput, MsrWorkloads,
                         testing::Values(Workload{"LayerGraphs/gnmt_inference", 182.563, 32.9107, false},
                                         Workload{"LayerGraphs/gnmt_training", 520.453, 107.004, true},
                                         Workload{"LayerGraphs/resnet50_inference", 201.450, 33.7747, false},
                                         Workload{"LayerGraphs/resnet50_training", 462.381, 78.6318, true},
                                         Workload{"LayerGraphs/inceptionv3_inference", 310.969, 51.5519, false},
                                         Workload{"LayerGraphs/inceptionv3_training", 710.738, 122.762, true},
                                         Workload{"OperatorGraphs/bert_l-3_inference", 49.353, 27.9186, true},
                                         Workload{"OperatorGraphs/bert_l-3_training", 122.987, 65.3031, true},
                                         Workload{"OperatorGraphs/bert_l-12_inference", 642.78, 147.478, true},
                                         Workload{"OperatorGraphs/bert_L-12_training", 1891.74, 437.998, true},
                                         Workload{"OperatorGraphs/resnet50_inference", 325.132, 124.349, true},
                                         Workload{"OperatorGraphs/resnet50_training", 684.891, 255.194, true}));

/// A few nodes, some backward, classes, ties, zeroes, memory that may bind.
Json random_graph(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Json json{{"maxFPGAs", draw(0, 3)}, {"maxCPUs", draw(0, 1)}, {"edges", Json::array()}};
  if (json["maxFPGAs"] == 0) json["maxCPUs"] = 1;
  const int nodes = draw(1, 7), forward = draw(1, nodes), classes = draw(1, 6);
  const bool even = draw(0, 1) == 0;  // CPUs are equally slow at everything: bounds are tight
  double bytes = 0;
  for (int n = 0; n < nodes; ++n) {
    const int ms = draw(0, 3) * draw(0, 4);
    Json node{
        {"id", n},           {"supportedOnFpga", draw(0, 15) > 0 ? 1 : 0}, {"cpuLatency", ms * (even ? 2 : draw(0, 4))},
        {"fpgaLatency", ms}, {"isBackwardNode", n < forward ? 0 : 1},      {"size", draw(0, 4)}};
    if (draw(0, 2) > 0) node["colorClass"] = draw(0, classes);
    bytes += node["size"].get<double>();
    json["nodes"].push_back(node);
  }
  if (!even) json["nodes"][0]["cpuLatency"] = draw(1, 9);
  json["maxSizePerFPGA"] = draw(0, 1) == 0 ? 1000 : std::max(1, static_cast<int>(bytes) * 2 / 3);
  for (int from = 0; from < nodes; ++from) {
    const int cost = draw(0, 3) * draw(1, 3);
    for (int to = from + 1; to < nodes; ++to)
      if (draw(0, 2) == 0) json["edges"].push_back({{"sourceId", from}, {"destId", to}, {"cost", cost}});
  }
  return json;
}

/// Tries every device for every class, or for every node.
double brute_force(const Json& json, bool together) {
  const int devices = json["maxFPGAs"].get<int>() + json["maxCPUs"].get<int>();
  std::map<std::string, std::vector<int>> groups;
  for (const auto& [node, name] : classes_of(json)) groups[together ? name : text(node)].push_back(node);
  double best = kInfinity;
  std::vector<int> choice(groups.size());
  for (bool more = true; more;) {
    Devices device_of;
    std::size_t group = 0;
    for (const auto& [name, nodes] : groups) {
      for (const int node : nodes) device_of[node] = choice[group];
      ++group;
    }
    const double load = max_load(json, device_of);
    if (load < best && is_pipeline(json, device_of, together)) best = load;
    group = 0;
    while (group < choice.size() && ++choice[group] == devices) choice[group++] = 0;
    more = group < choice.size();
  }
  return best;
}

TEST(Msr, equals_brute_force_on_random_graphs) {
  int solved = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    std::mt19937 random(seed);
    const Json json = random_graph(random);
    std::istringstream in(json.dump());
    const Profile profile = import_msr(in, "random.json");
    const Solution joint = solve(profile, Cuts::joint);
    const double best_ms = brute_force(json, true);
    ASSERT_EQ(joint.found(), best_ms < kInfinity) << json;
    if (!joint.found()) {
      EXPECT_EQ(joint.lower_bound, kInfinity);
      continue;
    }
    ++solved;
    EXPECT_NEAR(joint.price * 1e3, best_ms, 1e-6) << json;
    EXPECT_TRUE(joint.price == 0 || is_optimal(joint));
    check(json, profile, joint, Cuts::joint);
  }
  EXPECT_GT(solved, 400);
}

TEST(Msr, without_co_location_lies_between_the_best_and_the_best_with_it) {
  int lower = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    std::mt19937 random(seed);
    const Json json = random_graph(random);
    std::istringstream in(json.dump());
    const Profile profile = import_msr(in, "random.json");
    const Solution joint = solve(profile, Cuts::joint), apart = solve(profile, Cuts::independent);
    ASSERT_EQ(joint.found(), apart.found());
    if (!joint.found()) continue;
    check(json, profile, apart, Cuts::independent);
    EXPECT_LE(apart.price, joint.price * kRounding);
    const double best_ms = brute_force(json, false);
    EXPECT_GE(apart.price * 1e3, best_ms - 1e-6);
    EXPECT_LE(apart.lower_bound * 1e3, best_ms + 1e-6);
    const bool only_forward = std::none_of(profile.model.layers.begin(), profile.model.layers.end(),
                                           [](const Layer& layer) { return layer.backward; });
    if (only_forward) {
      EXPECT_NEAR(apart.price * 1e3, best_ms, 1e-6) << json;
    }
    lower += apart.price < joint.price * (1 - 1e-6) ? 1 : 0;
  }
  EXPECT_GE(lower, 5);
}

Profile imported(const std::string& name) {
  return import_msr("tests/data/dnn-partitioning/throughput-inputs/" + name + ".json");
}

TEST(Msr, says_when_its_time_is_up) {
  const Profile profile = imported("LayerGraphs/gnmt_training");
  const Problem problem{profile, *profile.cluster, {}, {.cuts = Cuts::joint}};
  const Solution none = solve_msr(problem, std::chrono::steady_clock::now() - std::chrono::seconds(1));
  EXPECT_TRUE(none.timed_out);
  EXPECT_FALSE(is_optimal(none));
  EXPECT_GT(none.lower_bound, 0);
}

TEST(Msr, uses_faster_accelerators_for_more) {
  Profile profile = imported("LayerGraphs/resnet50_inference");
  const double equal_s = solve(profile, Cuts::joint).price;
  for (Rank rank : {0, 1}) profile.cluster->ranks[at(rank)].speed = 2;
  const Solution faster = solve(profile, Cuts::joint);
  EXPECT_TRUE(is_optimal(faster));
  EXPECT_LT(faster.price, equal_s * 0.8);
}

TEST(Msr, refuses_profiles_whose_layers_have_backward_times) {
  Profile profile = imported("LayerGraphs/gnmt_inference");
  profile.costs[3].backward_input_s = 1e-3;
  EXPECT_THROW((void)solve(profile, Cuts::joint), Error);
}

TEST(Msr, refuses_profiles_of_too_many_layers) {
  Profile profile = imported("LayerGraphs/gnmt_inference");
  profile.costs.resize(20'001);
  EXPECT_THROW((void)solve(profile, Cuts::joint), Error);
}

TEST(Msr, refuses_host_cpus_without_times) {
  Profile profile = imported("LayerGraphs/gnmt_inference");
  for (LayerCost& cost : profile.costs) cost.host_s = 0;
  EXPECT_THROW((void)solve(profile, Cuts::joint), Error);
}

}  // namespace
}  // namespace sluice
