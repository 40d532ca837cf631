// Times the dynamic program on PipeDream's profiles and on large random models, beside PipeDream's optimizer
// (its wall time, tests/data/pipedream). Run it from the top of the source tree: make bench.
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/index.h"
#include "core/text.h"
#include "optimizer/import/pipedream.h"
#include "optimizer/solver/search.h"
#include "tests/unit/optimizer/random_profile.h"

namespace sluice {
namespace {

const std::string kFolder = "tests/data/pipedream/";
constexpr int kRanks = 16;
constexpr double kBytesPerSecond = 1.25e9;
constexpr std::int64_t kMemoryBytes = 16'000'000'000;

struct Row {
  std::string name;
  double their_s = 0;  ///< 0: not known
};

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void time_search(const Row& row, const Problem& problem) {
  const double begin_s = cpu_s();
  const Solution found = search(problem, std::chrono::steady_clock::now() + std::chrono::seconds(30));
  const double own_s = cpu_s() - begin_s;
  const std::string their = row.their_s > 0 ? text(row.their_s) : "-";
  const std::string ratio = row.their_s > 0 ? text(static_cast<int>(row.their_s / own_s), "x") : "-";
  const char* proof = is_optimal(found) ? "optimal" : found.timed_out ? "out of time" : "";
  if (found.found())
    std::printf("%-46s %9.3f %9s %9s  %10.6g ms, gap %.2f %% %s\n", row.name.c_str(), own_s, their.c_str(),
                ratio.c_str(), found.price * 1e3, 100 * (found.price / found.lower_bound - 1), proof);
  else
    std::printf("%-46s %9.3f %9s %9s  %s\n", row.name.c_str(), own_s, their.c_str(), ratio.c_str(),
                found.timed_out ? "nothing found in time" : "infeasible");
  std::fflush(stdout);
}

/// Wall time of PipeDream's optimizer on 16 machines, by profile: with the activations' traffic, as ours.
std::map<std::string, double> pipedream_seconds() {
  std::map<std::string, double> seconds;
  std::ifstream results(kFolder + "pipedream_optimizer_results.jsonl");
  for (std::string line; std::getline(results, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (row.at("cfg") == "n=16 b=1.25e9 comm") seconds[row.at("f")] = row.at("wall_s");
  }
  return seconds;
}

void time_profiles(const std::string& kind, const SearchSpace& space, std::int64_t memory_bytes) {
  const std::map<std::string, double> their_s = pipedream_seconds();
  const LinkClass link{0, kBytesPerSecond};
  const Cluster cluster = uniform_cluster(1, kRanks, link, link, memory_bytes);
  for (const char* name :
       {"alexnet", "vgg16", "gnmt", "resnet18", "squeezenet1_0", "resnet50", "resnet101", "inception_v3"}) {
    const Profile profile = import_pipedream(kFolder + name + ".graph.txt").profile;
    const auto theirs = their_s.find(text(name, ".graph.txt"));
    const bool comparable = space.most_replicas > 1 && space.cuts == Cuts::joint && theirs != their_s.end();
    time_search({text(kind, ": ", name), comparable ? theirs->second : 0},
                {profile, cluster, {"1f1b", 64, false}, space});
  }
}

/// A chain with short skips.
Profile random_model(int layers) {
  testing::RandomCase random(1);
  Profile profile = random.profile(layers, true);
  for (LayerId layer = 2; layer < layers; ++layer) {
    if (!random.chance(0.2)) continue;
    const TensorId skipped = profile.model.needs[at(layer - 1)].forward[0];
    profile.model.needs[at(layer)].forward.push_back(skipped);
    profile.model.needs[at(layer)].backward_input.push_back(skipped);
  }
  return profile;
}

/// @param memory_share  of what ranks hold where all is spread evenly; 0: unlimited
void time_large(int layers, int ranks, int microbatches, double memory_share) {
  const Profile profile = random_model(layers);
  double held = 0;
  for (const Tensor& tensor : profile.model.tensors) held += static_cast<double>(tensor.bytes) * ranks;
  for (const LayerCost& cost : profile.costs) held += 3 * static_cast<double>(cost.parameter_bytes);
  const LinkClass link{0, 3};
  const Cluster cluster =
      uniform_cluster(1, ranks, link, link,
                      memory_share > 0 ? static_cast<std::int64_t>(memory_share * held / ranks) : kUnlimitedMemory);
  time_search({text("joint, ", layers, " layers, ", ranks, " ranks", memory_share > 0 ? ", memory" : "")},
              {profile, cluster, {"1f1b", microbatches, false}, {.cuts = Cuts::joint, .most_replicas = ranks}});
}

}  // namespace
}  // namespace sluice

int main() {
  using namespace sluice;
  std::printf("%-46s %9s %9s %9s  %s\n", "16 ranks, 10 Gb/s, up to 16 replicas; CPU s", "ours", "PipeDream", "faster",
              "bottleneck");
  const auto space = [](Cuts cuts, bool ideals, int replicas) {
    return SearchSpace{.cuts = cuts, .most_replicas = replicas, .ideals = ideals};
  };
  time_profiles("joint", space(Cuts::joint, false, kRanks), kUnlimitedMemory);
  time_profiles("joint, 16 GB", space(Cuts::joint, false, kRanks), kMemoryBytes);
  time_profiles("joint over ideals, 16 GB", space(Cuts::joint, true, kRanks), kMemoryBytes);
  time_profiles("independent", space(Cuts::independent, false, kRanks), kUnlimitedMemory);
  time_profiles("independent, 16 GB", space(Cuts::independent, false, kRanks), kMemoryBytes);
  time_profiles("independent, no replicas", space(Cuts::independent, false, 1), kUnlimitedMemory);
  time_large(400, 64, 64, 0);
  time_large(400, 64, 64, 0.5);
  time_large(1000, 1024, 2048, 0);
  time_large(1000, 1024, 2048, 0.5);
}
