#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>

#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/prediction.h"
#include "core/stage_check.h"
#include "core/stage_pricing.h"
#include "core/storage/cluster_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/text.h"
#include "optimizer/command/commands.h"
#include "optimizer/command/plan_json.h"
#include "optimizer/command/plan_text.h"
#include "optimizer/command/plan_transfers.h"
#include "optimizer/schedule/schedule_text.h"
#include "results/text_table.h"

// What is in a file, as JSON; the text is the same figures as tables.
namespace sluice {

namespace po = boost::program_options;

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
  json["algorithms"] = Json::array();
  for (const AlgorithmCost& cost : cluster.algorithm_costs)
    json["algorithms"].push_back({{"collective", to_string(cost.collective)},
                                  {"algorithm", to_string(cost.algorithm)},
                                  {"segmented", cost.segmented},
                                  {"from_bytes", cost.from_bytes},
                                  {"intra_node_latency_s", cost.intra_node.latency_s},
                                  {"intra_node_bandwidth_bytes_per_s", finite(cost.intra_node.bandwidth_bytes_per_s)},
                                  {"inter_node_latency_s", cost.inter_node.latency_s},
                                  {"inter_node_bandwidth_bytes_per_s", finite(cost.inter_node.bandwidth_bytes_per_s)},
                                  {"median_error", cost.median_error}});
  return json;
}

std::int64_t total(const std::array<std::int64_t, 2>& bytes) { return bytes[0] + bytes[1]; }

/// Layers that a rank runs in a work: "conv1 to pool2"; empty if none.
std::string layers_of(const Plan& plan, Work work, Rank rank) {
  std::string names;
  for (const Stage& stage : plan.stages)
    if (stage.work == work && owns(rank, stage)) names += text(names.empty() ? "" : ", ", layer_names(plan, stage));
  return names;
}

Json layers_by_work(const Plan& plan, Rank rank) {
  return {{"node", plan.cluster.ranks[at(rank)].node},
          {"forward", layers_of(plan, Work::forward, rank)},
          {"backward", layers_of(plan, Work::backward, rank)},
          {"backward_input", layers_of(plan, Work::backward_input, rank)},
          {"backward_weight", layers_of(plan, Work::backward_weight, rank)},
          {"recompute", layers_of(plan, Work::recompute, rank)}};
}

/// Adds what the ranks' programs make of it: load, memory, bytes in a step.
void add_figures(Json& ranks, const Plan& plan) {
  const Timeline timeline = predict_step(plan).timeline;
  const Loads loads = loads_of(plan.profile, plan.cluster, plan.stages, {plan.schedule, plan.microbatches});
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
    ranks[at(rank)].update({{"load_s", loads.ranks[at(rank)].compute_s},
                            {"memory_bytes", memory_use(plan, rank).total()},
                            {"memory_limit_bytes", limited(plan.cluster.ranks[at(rank)].memory_bytes)},
                            {"sent_bytes", total(timeline.ranks[at(rank)].sent_bytes)},
                            {"received_bytes", total(timeline.ranks[at(rank)].received_bytes)}});
}

Json describe(const Plan& plan) {
  Json json{{"model", plan.profile.model.name},
            {"schedule", plan.schedule},
            {"method", plan.method},
            {"status", plan.status},
            {"lower_bound_s", plan.lower_bound_s},
            {"data_reader", plan.data_reader == kNone ? Json(nullptr) : Json(plan.data_reader)}};
  json.update(to_json(plan.figures));
  json["schedule"] = plan.schedule;  // figures of a partition have none
  json["ranks"] = Json::array();
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
    json["ranks"].push_back(layers_by_work(plan, rank));
  if (!plan.programs.empty()) add_figures(json["ranks"], plan);
  json["transfers"] = transfers_json(plan);
  json["runners_up"] = Json::array();
  for (const PlanFigures& figures : plan.runners_up) json["runners_up"].push_back(to_json(figures));
  json["options"] = plan.options;
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

/// @throws Error (bad input) for stages that figures cannot be made of
Plan read_whole_plan(const std::string& path) {
  Plan plan = read_plan(path);
  const std::string fault = plan.programs.empty() ? "" : stage_fault(plan);
  if (!fault.empty()) throw bad_input(text(path, ": ", fault));
  return plan;
}

Json describe_file(const std::string& path) {
  const std::string schema = schema_of(path);
  Json json{{"schema", schema}};
  json.update(schema == kProfileSchema   ? describe(read_profile(path))
              : schema == kClusterSchema ? describe(read_cluster(path))
              : schema == kPlanSchema    ? describe(read_whole_plan(path))
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
  if (value.is_number() && key.ends_with("_bytes_per_s")) return text(value.get<double>() * 1e-9, " GB/s");
  if (value.is_number() && key.ends_with("_s")) return format_seconds(value.get<double>());
  if (value.is_number() && key.ends_with("_bytes")) return format_bytes(value.get<std::int64_t>());
  return plain(value);
}

std::string title(std::string key) {
  for (const std::string unit : {"_bytes_per_s", "_bytes", "_s"})
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

void print(const Plan& plan) {
  std::cout << plan.profile.model.name << ", " << headline(plan);
  if (!plan.programs.empty())
    std::cout << ", " << plan.figures.cuts << " cuts: step " << format_seconds(plan.figures.step_s) << " simulated";
  std::cout << "\n\n"
            << drawing(plan) << '\n'
            << reasons(plan) << '\n'
            << candidates_table(plan) << transfers_table(plan);
}

}  // namespace

int show_command(const Words& words) {
  CommandSyntax syntax{"sluice show FILE [options]", po::options_description("options"), {"file"}};
  syntax.table.add_options()                                              //
      ("file", po::value<std::string>()->required(), "any file of ours")  //
      ("schedule-text", po::bool_switch(),
       "print a plan's schedule, one line a rank, as optimize --schedule-file reads it")  //
      ("json", po::bool_switch(), "print one JSON object");
  const auto values = parse_options(syntax, words, std::cout);
  if (!values) return static_cast<int>(ExitCode::done);
  const std::string& path = (*values)["file"].as<std::string>();
  if ((*values)["schedule-text"].as<bool>())
    std::cout << schedule_text(read_whole_plan(path));
  else if ((*values)["json"].as<bool>())
    std::cout << describe_file(path).dump(2) << '\n';
  else if (schema_of(path) == kPlanSchema)
    print(read_whole_plan(path));
  else
    print(describe_file(path));
  return static_cast<int>(ExitCode::done);
}

}  // namespace sluice
