#include "pipedream_results.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace sluice::testing {
namespace {

PipedreamPlan plan_of(const nlohmann::json& run, std::size_t levels) {
  PipedreamPlan plan;
  if (run["bottleneck_ms"].is_null()) return plan;
  plan.time_s = run["bottleneck_ms"].get<double>() * 1e-3;
  for (std::size_t level = 1; level <= levels; ++level) {
    std::vector<PipedreamStage>& stages = plan.levels.emplace_back();
    for (const auto& stage : run["levels"]["Level " + std::to_string(level)])
      stages.push_back({stage[0], stage[1], stage[3]});
  }
  return plan;
}

PipedreamResult result_of(const nlohmann::json& run) {
  PipedreamResult result;
  const std::string file = run["f"];
  result.profile = file.substr(0, file.find('.'));
  result.configuration = run["cfg"];
  result.states = run["states"];
  std::istringstream words(result.configuration);
  std::string machines, bandwidths, flags;
  words >> machines >> bandwidths >> flags;
  std::istringstream each_machines(machines.substr(2)), each_bandwidth(bandwidths.substr(2));
  for (std::string n, b; std::getline(each_machines, n, ',') && std::getline(each_bandwidth, b, ',');)
    result.levels.push_back({std::stoi(n), std::stod(b)});
  const auto has = [&](const char* flag) { return flags.find(flag) != std::string::npos; };
  result.rules.replicas = !has("straight");
  result.rules.activations = has("comm");
  if (has("mem")) result.rules.memory_bytes = 16'000'000'000;
  result.plan = plan_of(run, result.levels.size());
  return result;
}

}  // namespace

std::vector<PipedreamResult> pipedream_results() {
  std::ifstream in(kPipedreamFolder + "pipedream_optimizer_results.jsonl");
  std::vector<PipedreamResult> results;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json run = nlohmann::json::parse(line);
    if (run.contains("states")) results.push_back(result_of(run));
  }
  return results;
}

}  // namespace sluice::testing
