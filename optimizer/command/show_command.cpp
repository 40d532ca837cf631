#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/storage/cluster_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/text.h"
#include "optimizer/command/commands.h"
#include "results/text_table.h"

// What is in a file, as JSON; the text is the same figures as tables.
namespace sluice {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

namespace {

/// JSON has no infinity: an unlimited bandwidth or memory is null.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json limited(std::int64_t bytes) { return bytes == kUnlimitedMemory ? Json(nullptr) : Json(bytes); }

std::int64_t made_bytes(const Model& model, LayerId layer) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : model.tensors) bytes += tensor.producer == layer ? tensor.bytes : 0;
  return bytes;
}

Json describe(const Profile& profile) {
  Json json{{"model", profile.model.name}, {"microbatch", profile.model.microbatch},   {"device", profile.device},
            {"threads", profile.threads},  {"split_backward", profile.split_backward}, {"layers", Json::array()}};
  for (LayerId l = 0; l < std::ssize(profile.costs); ++l) {
    const LayerCost& cost = profile.costs[at(l)];
    json["layers"].push_back({{"name", profile.model.layers[at(l)].name},
                              {"description", profile.model.layers[at(l)].description},
                              {"forward_s", cost.forward_s},
                              {"backward_input_s", cost.backward_input_s},
                              {"backward_weight_s", cost.backward_weight_s},
                              {"update_s", cost.update_s},
                              {"parameter_bytes", cost.parameter_bytes},
                              {"tensor_bytes", made_bytes(profile.model, l)}});
  }
  return json;
}

Json describe(const Cluster& cluster) {
  Json json{{"nodes", cluster.node_names}, {"ranks", Json::array()}};
  for (const RankSpec& rank : cluster.ranks)
    json["ranks"].push_back({{"node", rank.node}, {"speed", rank.speed}, {"memory_bytes", limited(rank.memory_bytes)}});
  for (const LinkKind kind : {LinkKind::intra_node, LinkKind::inter_node}) {
    const LinkClass& link = link_class(cluster, kind);
    json[to_string(kind)] = {{"latency_s", link.latency_s},
                             {"bandwidth_bytes_per_s", finite(link.bandwidth_bytes_per_s)}};
  }
  return json;
}

/// Bytes that each rank sends and receives in one step.
struct StepTraffic {
  std::vector<std::int64_t> sent, received;
};
StepTraffic step_traffic(const Plan& plan) {
  StepTraffic traffic{std::vector<std::int64_t>(plan.cluster.ranks.size()),
                      std::vector<std::int64_t>(plan.cluster.ranks.size())};
  const Program& step = program(plan, "step");
  for (Rank rank = 0; rank < std::ssize(step.ranks); ++rank)
    for (const Instruction& instruction : step.ranks[at(rank)]) {
      if (instruction.op != Op::multicast_start) continue;
      const Transfer& transfer = plan.transfers[at(instruction.transfer)];
      const Group& group = plan.groups[at(transfer.group)];
      if (rank != group.root) continue;  // each multicast once
      for (const Edge& edge : multicast_edges(group, plan.cluster)) {
        traffic.sent[at(edge.from)] += transfer.bytes;
        traffic.received[at(edge.to)] += transfer.bytes;
      }
    }
  return traffic;
}

/// Layers that a rank runs in a work: "conv1 to pool2"; empty if none.
std::string layers_of(const Plan& plan, Work work, Rank rank) {
  std::string names;
  for (const Stage& stage : plan.stages)
    if (stage.work == work && owns(rank, stage)) names += text(names.empty() ? "" : ", ", layer_names(plan, stage));
  return names;
}

/// Compute per micro-batch of a rank's stages.
double load_s(const Plan& plan, Rank rank) {
  double seconds = 0;
  for (const Stage& stage : plan.stages)
    if (owns(rank, stage))
      seconds += stage_time(plan.profile, stage.layers, stage.work) / static_cast<double>(stage.owners.size());
  return seconds / plan.cluster.ranks[at(rank)].speed;
}

Json describe(const Plan& plan) {
  Json json{{"model", plan.profile.model.name},
            {"schedule", plan.schedule},
            {"microbatches", plan.microbatches},
            {"cuts", plan.figures.cuts},
            {"forward_cuts", plan.figures.forward_cuts},
            {"backward_cuts", plan.figures.backward_cuts},
            {"method", plan.method},
            {"status", plan.status},
            {"bottleneck_s", plan.figures.bottleneck_s},
            {"step_s", plan.figures.step_s},
            {"ranks", Json::array()},
            {"options", plan.options}};
  const StepTraffic traffic = step_traffic(plan);
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
    json["ranks"].push_back({{"node", plan.cluster.ranks[at(rank)].node},
                             {"forward", layers_of(plan, Work::forward, rank)},
                             {"backward", layers_of(plan, Work::backward, rank)},
                             {"load_s", load_s(plan, rank)},
                             {"memory_bytes", memory_use(plan, rank).total()},
                             {"memory_limit_bytes", limited(plan.cluster.ranks[at(rank)].memory_bytes)},
                             {"sent_bytes", traffic.sent[at(rank)]},
                             {"received_bytes", traffic.received[at(rank)]}});
  return json;
}

/// Files whose contents have their own commands, or none.
Json describe_other(const std::string& path, const std::string& schema) {
  const FileReader file(path, schema);
  const GroupReader root = file.root();
  Json json{{"creator", root.text_attribute("creator")}, {"created", root.text_attribute("created")}};
  json["contents"] = root.names();
  return json;
}

Json describe_file(const std::string& path) {
  const std::string schema = schema_of(path);
  Json json{{"schema", schema}};
  json.update(schema == kProfileSchema   ? describe(read_profile(path))
              : schema == kClusterSchema ? describe(read_cluster(path))
              : schema == kPlanSchema    ? describe(read_plan(path))
                                         : describe_other(path, schema));
  return json;
}

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "unlimited";
  if (value.is_number_float()) return text(value.get<double>());
  return value.dump();
}

/// A value of a table's column, by the unit in the column's name.
std::string formatted(const std::string& key, const Json& value) {
  if (value.is_number() && key.ends_with("_s")) return format_seconds(value.get<double>());
  if (value.is_number() && key.ends_with("_bytes")) return format_mebibytes(value.get<std::int64_t>());
  return plain(value);
}

std::string title(std::string key) {
  for (const std::string unit : {"_bytes", "_s"})
    if (key.ends_with(unit)) key.erase(key.size() - unit.size());
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

void print_table(const std::string& key, const Json& array) {
  std::vector<std::vector<std::string>> rows{{key}};
  for (const auto& [column, value] : array[0].items()) rows[0].push_back(title(column));
  for (std::size_t i = 0; i < array.size(); ++i) {
    rows.push_back({std::to_string(i)});
    for (const auto& [column, value] : array[i].items()) rows.back().push_back(formatted(column, value));
  }
  std::cout << text_table(rows);
}

/// Tables for lists of objects, a line for everything else.
void print(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_array() && !value.empty() && value[0].is_object()) {
      print_table(key, value);
    } else if (value.is_structured()) {
      std::cout << title(key) << ":";
      for (const auto& [name, item] : value.items())
        std::cout << "  " << (value.is_object() ? name + "=" : "") << plain(item);
      std::cout << '\n';
    } else {
      std::cout << title(key) << ": " << formatted(key, value) << '\n';
    }
  }
}

}  // namespace

int show_command(const Words& words) {
  CommandSyntax syntax{"sluice show FILE [options]", po::options_description("options"), {"file"}};
  syntax.table.add_options()                                              //
      ("file", po::value<std::string>()->required(), "any file of ours")  //
      ("json", po::bool_switch(), "print one JSON object");
  const auto values = parse_options(syntax, words, std::cout);
  if (!values) return static_cast<int>(ExitCode::done);
  const Json json = describe_file((*values)["file"].as<std::string>());
  (*values)["json"].as<bool>() ? void(std::cout << json.dump(2) << '\n') : print(json);
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
