#include "optimizer/import/pipedream.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "core/topological_order.h"

namespace sluice {
namespace {

struct Node {
  int line = 0;
  std::string description;
  double forward_ms = 0, backward_ms = 0;
  std::int64_t activation_bytes = 0, parameter_bytes = 0;
  std::set<int> predecessors, successors;  ///< by number

  [[nodiscard]] bool is_input() const { return description.starts_with("Input"); }
  [[nodiscard]] bool is_idle_sink() const { return successors.empty() && description.starts_with("__getitem__"); }
};
using Graph = std::map<int, Node>;  ///< by node number

std::string trimmed(const std::string& s) {
  const auto first = s.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

/// Reads one file and says in which line something is wrong.
class Reader {
 public:
  Reader(std::istream& in, std::string file) : in_(in), file_(std::move(file)) {}
  [[nodiscard]] Graph read();
  [[nodiscard]] Error error(int line, const std::string& reason) const {
    return bad_input(text(file_, ":", line, ": ", reason));
  }

 private:
  struct Edge {
    int line, from, to;
  };

  void read_node(const std::string& line);
  void read_edge(const std::string& line);
  void connect();
  [[nodiscard]] int number_of(const std::string& name) const;
  [[nodiscard]] std::string field(const std::string& costs, const std::string& key) const;
  [[nodiscard]] double number(const std::string& key, const std::string& value) const;
  [[nodiscard]] std::int64_t bytes(const std::string& costs, const std::string& key) const;

  std::istream& in_;
  std::string file_;
  int line_ = 0;
  Graph graph_;
  std::vector<Edge> edges_;
};

Graph Reader::read() {
  for (std::string line; std::getline(in_, line);) {
    ++line_;
    line = trimmed(line);
    if (line.find("forward_compute_time") != std::string::npos)
      read_node(line);
    else if (!line.empty())
      read_edge(line);
  }
  if (graph_.empty()) throw bad_input(text(file_, ": no line describes a node; expected PipeDream's graph format"));
  connect();
  return std::move(graph_);
}

void Reader::read_node(const std::string& line) {
  // The description holds commas and '=': cut at the separators first.
  const auto name_end = line.find(" -- ");
  const auto costs_begin = line.rfind(" -- ", line.find("forward_compute_time"));
  if (name_end == std::string::npos || costs_begin == std::string::npos || costs_begin == name_end)
    throw error(line_, "expected NODE -- DESCRIPTION -- forward_compute_time=...");
  const std::string costs = line.substr(costs_begin + 4, line.find(" -- ", costs_begin + 4) - costs_begin - 4);
  Node node;
  node.line = line_;
  node.description = line.substr(name_end + 4, costs_begin - name_end - 4);
  node.forward_ms = number("forward_compute_time", field(costs, "forward_compute_time"));
  node.backward_ms = number("backward_compute_time", field(costs, "backward_compute_time"));
  node.activation_bytes = bytes(costs, "activation_size");
  node.parameter_bytes = bytes(costs, "parameter_size");
  const std::string name = line.substr(0, name_end);
  const auto [known, is_new] = graph_.emplace(number_of(name), node);
  if (!is_new) throw error(line_, text(name, " is described twice, first in line ", known->second.line));
}

void Reader::read_edge(const std::string& line) {
  const auto separator = line.find(" -- ");
  if (separator == std::string::npos)
    throw error(line_, "neither a node (no forward_compute_time) nor an edge (NODE -- NODE)");
  edges_.push_back({line_, number_of(line.substr(0, separator)), number_of(line.substr(separator + 4))});
}

void Reader::connect() {
  for (const Edge& edge : edges_) {
    for (const int end : {edge.from, edge.to})
      if (!graph_.contains(end)) throw error(edge.line, text("the edge names node", end, ", which no line describes"));
    graph_.at(edge.from).successors.insert(edge.to);
    graph_.at(edge.to).predecessors.insert(edge.from);
  }
}

int Reader::number_of(const std::string& name) const {
  constexpr std::string_view kPrefix = "node";
  int number = -1;
  if (name.starts_with(kPrefix)) {
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + kPrefix.size(), end, number).ptr != end) number = -1;
  }
  if (number < 0) throw error(line_, text("'", name, "' is not a node's name; expected node and a number"));
  return number;
}

/// What stands behind "key=": a list in brackets, or all up to the next comma.
std::string Reader::field(const std::string& costs, const std::string& key) const {
  const auto begin = costs.find(key + "=") + key.size() + 1;
  if (costs.find(key + "=") == std::string::npos) throw error(line_, text(key, " is missing"));
  if (costs[begin] != '[') return trimmed(costs.substr(begin, costs.find(',', begin) - begin));
  const auto end = costs.find(']', begin);
  if (end == std::string::npos) throw error(line_, text(key, ": the list has no closing bracket"));
  return costs.substr(begin + 1, end - begin - 1);
}

double Reader::number(const std::string& key, const std::string& value) const {
  std::size_t used = std::string::npos;
  double parsed = 0;
  try {
    parsed = std::stod(value, &used);
  } catch (const std::exception&) {  // not a number, or beyond a double: reported below
  }
  if (used != value.size()) throw error(line_, text(key, " is '", value, "', expected a number"));
  if (!std::isfinite(parsed) || parsed < 0)
    throw error(line_, text(key, " is ", value, ", expected a finite number of at least 0"));
  return parsed;
}

std::int64_t Reader::bytes(const std::string& costs, const std::string& key) const {
  constexpr double kMost = 0x1p50;
  double sum = 0;
  std::istringstream parts(field(costs, key));
  do {
    std::string part;
    std::getline(parts, part, ';');
    sum += number(key, trimmed(part));
  } while (!parts.eof());
  if (sum > kMost) throw error(line_, text(key, " is ", sum, " bytes, expected at most ", kMost));
  return std::llround(sum);
}

void drop_idle_sinks(Graph& graph) {
  for (auto node = graph.begin(); node != graph.end();) {
    if (!node->second.is_idle_sink()) {
      ++node;
      continue;
    }
    for (const int from : node->second.predecessors) graph.at(from).successors.erase(node->first);
    node = graph.erase(node);
  }
}

/// Node numbers, the smallest ready one first.
std::vector<int> ordered_numbers(const Graph& graph, const Reader& reader) {
  std::vector<int> numbers;
  for (const auto& [number, node] : graph) numbers.push_back(number);
  const auto index_of = [&](int number) {
    return static_cast<int>(std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin());
  };
  std::vector<std::vector<int>> successors;
  for (const auto& [number, node] : graph) {
    auto& targets = successors.emplace_back();
    for (const int successor : node.successors) targets.push_back(index_of(successor));
  }
  std::vector<int> order = topological_order(successors);
  std::set<int> missing(numbers.begin(), numbers.end());
  for (int& node : order) missing.erase(node = numbers[at(node)]);
  if (missing.empty()) return order;
  const int stuck = *missing.begin();
  throw reader.error(graph.at(stuck).line, text("node", stuck, " lies on or behind a cycle of edges"));
}

LayerCost cost_of(const Node& node) {
  LayerCost cost;
  cost.forward_s = node.forward_ms * 1e-3;
  cost.backward_input_s = node.backward_ms * 1e-3;
  cost.parameter_bytes = node.parameter_bytes;
  return cost;
}

void add_layers(Profile& profile, const Graph& graph, const std::vector<int>& order) {
  Model& model = profile.model;
  std::map<int, TensorId> tensor_of;
  for (const int number : order) {
    const Node& node = graph.at(number);
    Tensor tensor;
    tensor.name = text("node", number);
    tensor.bytes = node.activation_bytes;
    if (node.is_input()) {
      tensor.kind = TensorKind::input;
    } else {
      tensor.producer = static_cast<LayerId>(model.layers.size());
      std::vector<TensorId> inputs;
      for (const int from : node.predecessors) inputs.push_back(tensor_of.at(from));
      Layer layer;
      layer.name = tensor.name;
      layer.description = node.description;
      model.layers.push_back(layer);
      model.needs.push_back({inputs, inputs, inputs});
      profile.costs.push_back(cost_of(node));
    }
    tensor_of[number] = static_cast<TensorId>(model.tensors.size());
    model.tensors.push_back(tensor);
  }
}

/// Forward timed without waiting for the device looks many times too fast.
void warn_if_suspicious(ImportedProfile& imported, const std::string& file) {
  double forward_s = 0, backward_s = 0;
  for (const LayerCost& cost : imported.profile.costs) {
    forward_s += cost.forward_s;
    backward_s += cost.backward_input_s;
  }
  if (backward_s <= 4 * forward_s && forward_s <= 4 * backward_s) return;
  imported.warnings.push_back(text(file, ": forward takes ", forward_s * 1e3, " ms and backward ", backward_s * 1e3,
                                   " ms in all, though backward usually takes one to three times as long: was the "
                                   "device waited for when this was measured?"));
}

}  // namespace

ImportedProfile import_pipedream(std::istream& in, const std::string& file) {
  Reader reader(in, file);
  Graph graph = reader.read();
  drop_idle_sinks(graph);
  ImportedProfile imported;
  Profile& profile = imported.profile;
  const std::string name = std::filesystem::path(file).filename();
  profile.model.name = name.substr(0, name.find('.'));
  profile.device = "imported from PipeDream's " + name;
  profile.split_backward = false;
  add_layers(profile, graph, ordered_numbers(graph, reader));
  if (profile.model.layers.empty()) throw bad_input(text(file, ": all nodes are inputs"));
  validate(profile);
  warn_if_suspicious(imported, file);
  return imported;
}

ImportedProfile import_pipedream(const std::string& file) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file)) throw bad_input(text(file, ": cannot be opened for reading"));
  return import_pipedream(in, file);
}

}  // namespace sluice
