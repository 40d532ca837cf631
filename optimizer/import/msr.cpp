#include "optimizer/import/msr.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "core/topological_order.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr double kMostDevices = 100'000;
constexpr double kMostTransferMs = 1e3 * static_cast<double>(kMostBytes) / kMsrBytesPerSecond;

struct Node {
  std::int64_t id = 0;
  std::string name;
  LayerCost cost;
  bool backward = false;
  std::optional<std::int64_t> color;
  std::optional<double> transfer_ms;
  std::vector<int> successors;
};

/// A JSON object of the file, which knows where it stands.
class Place {
 public:
  Place(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) throw bad_input(text(name_, ": expected an object, found ", shown(json)));
  }

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[nodiscard]] Error error(const std::string& complaint) const { return bad_input(text(name_, ": ", complaint)); }

  [[nodiscard]] const Json& list(const char* key) const {
    if (!value(key).is_array()) throw error(text(key, " is ", shown(value(key)), ", expected a list"));
    return value(key);
  }
  [[nodiscard]] double number(const char* key, double most) const {
    const Json& found = value(key);
    if (!found.is_number() || !(found.get<double>() >= 0 && found.get<double>() <= most))
      throw error(text(key, " is ", shown(found), ", expected a number from 0 to ", most));
    return found.get<double>();
  }
  [[nodiscard]] int count(const char* key) const {
    const double found = number(key, kMostDevices);
    if (found != std::floor(found)) throw error(text(key, " is ", found, ", expected a whole number"));
    return static_cast<int>(found);
  }
  [[nodiscard]] std::int64_t integer(const char* key) const {
    const Json& found = value(key);
    if (!found.is_number_integer() || (found.is_number_unsigned() && found.get<std::uint64_t>() > INT64_MAX))
      throw error(text(key, " is ", shown(found), ", expected an integer of 64 bits"));
    return found.get<std::int64_t>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    const Json& found = value(key);
    if (found.is_boolean()) return found.get<bool>();
    if (found == 0 || found == 1) return found == 1;
    throw error(text(key, " is ", shown(found), ", expected true, false, 1 or 0"));
  }
  [[nodiscard]] std::string string(const char* key) const {
    if (!value(key).is_string()) throw error(text(key, " is ", shown(value(key)), ", expected a string"));
    return value(key).get<std::string>();
  }

 private:
  static std::string shown(const Json& json) {
    const std::string all = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return all.size() <= 40 ? all : all.substr(0, 40) + "...";
  }
  [[nodiscard]] const Json& value(const char* key) const {
    if (!has(key)) throw error(text(key, " is missing"));
    return json_.at(key);
  }

  const Json& json_;
  std::string name_;
};

Json parse(std::istream& in, const std::string& file) {
  try {
    return Json::parse(in);
  } catch (const Json::exception& e) {
    throw bad_input(text(file, ": no JSON that can be read: ", e.what()));
  }
}

Node node_from(const Place& place) {
  Node node;
  node.id = place.integer("id");
  if (place.has("name")) node.name = place.string("name");
  if (place.has("colorClass")) node.color = place.integer("colorClass");
  node.backward = place.flag("isBackwardNode");
  node.cost.forward_s = place.number("fpgaLatency", kMostSeconds * 1e3) * 1e-3;
  node.cost.host_s = place.number("cpuLatency", kMostSeconds * 1e3) * 1e-3;
  node.cost.host_only = !place.flag("supportedOnFpga");
  if (place.has("size")) node.cost.packed_bytes = std::llround(place.number("size", static_cast<double>(kMostBytes)));
  return node;
}

/// Ascending by id.
std::vector<Node> nodes_from(const Json& list, const std::string& file) {
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < list.size(); ++i)
    nodes.push_back(node_from(Place(list[i], text(file, ": nodes[", i, "]"))));
  if (nodes.empty()) throw bad_input(text(file, ": nodes is empty"));
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < nodes.size(); ++i)
    if (nodes[i].id == nodes[i - 1].id) throw bad_input(text(file, ": two nodes have the id ", nodes[i].id));
  return nodes;
}

int find(const std::vector<Node>& nodes, const Place& edge, const char* key) {
  const std::int64_t id = edge.integer(key);
  const auto node = std::lower_bound(nodes.begin(), nodes.end(), id, [](const Node& n, auto i) { return n.id < i; });
  if (node == nodes.end() || node->id != id) throw edge.error(text(key, " is ", id, ", which no node has as id"));
  return static_cast<int>(node - nodes.begin());
}

void add_edge(std::vector<Node>& nodes, const Place& edge) {
  Node& source = nodes[at(find(nodes, edge, "sourceId"))];
  const int target = find(nodes, edge, "destId");
  if (source.backward && !nodes[at(target)].backward)
    throw edge.error(text("leads from backward node ", source.id, " to forward node ", nodes[at(target)].id));
  const double ms = edge.number("cost", kMostTransferMs);
  if (std::abs(source.transfer_ms.value_or(ms) - ms) > 1e-6)
    throw edge.error(text("cost is ", ms, ", but another edge of node ", source.id, " has ", *source.transfer_ms,
                          ": the output of a node costs the same on all its edges"));
  source.transfer_ms = ms;
  source.successors.push_back(target);
}

std::vector<int> order_of(const std::vector<Node>& nodes, const std::string& file) {
  std::vector<std::vector<int>> successors;
  for (const Node& node : nodes) successors.push_back(node.successors);
  std::vector<int> order = topological_order(successors);
  if (order.size() == nodes.size()) return order;
  std::vector<bool> ordered(nodes.size(), false);
  for (const int node : order) ordered[at(node)] = true;
  const auto stuck = std::find(ordered.begin(), ordered.end(), false) - ordered.begin();
  throw bad_input(
      text(file, ": node ", nodes[static_cast<std::size_t>(stuck)].id, " lies on or behind a cycle of edges"));
}

void add_layer(Profile& profile, const Node& node, std::map<std::int64_t, int>& classes) {
  Layer layer;
  layer.name = text("node", node.id);
  layer.description = node.name;
  layer.backward = node.backward;
  if (node.color) layer.colocation = classes.try_emplace(*node.color, static_cast<int>(classes.size())).first->second;
  Tensor tensor;
  tensor.name = layer.name;
  tensor.producer = static_cast<LayerId>(profile.model.layers.size());
  tensor.bytes = std::llround(node.transfer_ms.value_or(0) * 1e-3 * kMsrBytesPerSecond);
  profile.model.layers.push_back(layer);
  profile.model.tensors.push_back(tensor);
  profile.model.needs.emplace_back();
  profile.costs.push_back(node.cost);
}

void add_layers(Profile& profile, const std::vector<Node>& nodes, const std::vector<int>& order) {
  std::map<std::int64_t, int> classes;
  std::vector<LayerId> layer_of(nodes.size());
  for (const int node : order) {
    layer_of[at(node)] = static_cast<LayerId>(profile.model.layers.size());
    add_layer(profile, nodes[at(node)], classes);
  }
  for (const int node : order)  // so that reads ascend
    for (const int target : nodes[at(node)].successors) {
      auto& reads = profile.model.needs[at(layer_of[at(target)])].forward;
      const TensorId tensor = layer_of[at(node)];  // each layer has one
      if (reads.empty() || reads.back() != tensor) reads.push_back(tensor);
    }
}

Cluster cluster_from(const Place& file) {
  const int accelerators = file.count("maxFPGAs"), hosts = file.count("maxCPUs");
  if (accelerators + hosts == 0) throw file.error("maxFPGAs and maxCPUs are both 0");
  const double bytes = file.number("maxSizePerFPGA", std::numeric_limits<double>::max());
  if (bytes < 1) throw file.error(text("maxSizePerFPGA is ", bytes, ", expected at least 1"));
  const LinkClass link{.latency_s = 0, .bandwidth_bytes_per_s = kMsrBytesPerSecond};
  Cluster cluster = uniform_cluster(1, accelerators + hosts, link, link);
  for (int rank = 0; rank < accelerators + hosts; ++rank) {
    RankSpec& spec = cluster.ranks[at(rank)];
    spec.host = rank >= accelerators;
    if (!spec.host && bytes < static_cast<double>(kMostBytes)) spec.memory_bytes = static_cast<std::int64_t>(bytes);
  }
  return cluster;
}

}  // namespace

Profile import_msr(std::istream& in, const std::string& file) {
  const Json json = parse(in, file);
  const Place root(json, file);
  Profile profile;
  const std::string name = std::filesystem::path(file).filename();
  profile.model.name = name.substr(0, name.find('.'));
  profile.device = "imported from dnn-partitioning's " + name;
  profile.split_backward = false;
  profile.cluster = cluster_from(root);
  std::vector<Node> nodes = nodes_from(root.list("nodes"), file);
  const Json& edges = root.list("edges");
  for (std::size_t i = 0; i < edges.size(); ++i) add_edge(nodes, Place(edges[i], text(file, ": edges[", i, "]")));
  add_layers(profile, nodes, order_of(nodes, file));
  validate(profile);
  return profile;
}

Profile import_msr(const std::string& file) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) throw bad_input(text(file, ": cannot be opened for reading"));
  return import_msr(in, file);
}

}  // namespace sluice
