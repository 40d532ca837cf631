#include "optimizer/import/msr.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

Json node(int id, double cpu_ms, double accelerator_ms, double bytes) {
  return {{"id", id},      {"supportedOnFpga", 1}, {"cpuLatency", cpu_ms}, {"fpgaLatency", accelerator_ms},
          {"size", bytes}, {"isBackwardNode", 0}};
}
Json edge(int source, int target, double cost_ms) {
  return {{"sourceId", source}, {"destId", target}, {"cost", cost_ms}};
}

/// 7 -> -3 -> 20 (backward), 7 -> 20, the ids and edges in no order.
Json sample() {
  Json json{{"maxSizePerFPGA", 1e9}, {"maxFPGAs", 2}, {"maxCPUs", 1}};
  json["nodes"] = {node(20, 30, 3, 300), node(-3, 20, 2, 200.4), node(7, 10, 1.5, 100)};
  json["nodes"][0]["isBackwardNode"] = true;
  json["nodes"][0]["colorClass"] = 55;
  json["nodes"][1]["supportedOnFpga"] = false;
  json["nodes"][2]["colorClass"] = 55;
  json["nodes"][2]["name"] = "conv";
  json["edges"] = {edge(-3, 20, 0.25), edge(7, 20, 0.5), edge(7, -3, 0.5)};
  return json;
}

Profile import_text(const std::string& contents) {
  std::istringstream in(contents);
  return import_msr(in, "some.json");
}

void expect_refused(const std::string& contents, const std::vector<std::string>& parts_of_message) {
  try {
    (void)import_text(contents);
    ADD_FAILURE() << "accepted: " << contents;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    for (const std::string& part : parts_of_message)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " is not in: " << error.what();
  }
}

void expect_refused(const Json& json, const std::vector<std::string>& parts_of_message) {
  expect_refused(json.dump(), parts_of_message);
}

TEST(MsrImport, makes_layers_of_nodes_in_topological_order) {
  const Profile profile = import_text(sample().dump());
  const auto& layers = profile.model.layers;
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].name, "node7");
  EXPECT_EQ(layers[0].description, "conv");
  EXPECT_EQ(layers[1].name, "node-3");
  EXPECT_EQ(layers[2].name, "node20");
  EXPECT_EQ(profile.model.needs[2].forward, (std::vector<TensorId>{0, 1}));
  EXPECT_TRUE(layers[2].backward);
  EXPECT_FALSE(layers[0].backward);
  EXPECT_EQ(layers[0].colocation, layers[2].colocation);
  EXPECT_EQ(layers[1].colocation, kNone);
}

TEST(MsrImport, keeps_times_memory_transfers_and_devices) {
  const Profile profile = import_text(sample().dump());
  EXPECT_DOUBLE_EQ(profile.costs[0].forward_s, 1.5e-3);
  EXPECT_DOUBLE_EQ(profile.costs[0].host_s, 10e-3);
  EXPECT_EQ(profile.costs[1].packed_bytes, 200);
  EXPECT_TRUE(profile.costs[1].host_only);
  EXPECT_FALSE(profile.costs[0].host_only);
  EXPECT_EQ(profile.model.tensors[0].bytes, 500'000'000) << "0.5 ms at 1 TB/s";
  ASSERT_TRUE(profile.cluster);
  ASSERT_EQ(profile.cluster->ranks.size(), 3U);
  EXPECT_FALSE(profile.cluster->ranks[1].host);
  EXPECT_EQ(profile.cluster->ranks[1].memory_bytes, 1'000'000'000);
  EXPECT_TRUE(profile.cluster->ranks[2].host);
  EXPECT_EQ(profile.cluster->ranks[2].memory_bytes, kUnlimitedMemory);
}

TEST(MsrImport, takes_graphs_without_sizes_names_classes_and_edges) {
  Json json = sample();
  json["edges"] = Json::array();
  for (Json& n : json["nodes"]) n.erase("size");
  json["maxSizePerFPGA"] = 1e300;
  const Profile profile = import_text(json.dump());
  EXPECT_EQ(profile.costs[0].packed_bytes, 0);
  EXPECT_EQ(profile.cluster->ranks[0].memory_bytes, kUnlimitedMemory);
}

TEST(MsrImport, refuses_what_is_no_json) {
  for (const char* contents : {"", "{", "[1, 2", "node1 -- Conv2d", "{\"nodes\": NaN}"})
    expect_refused(std::string(contents), {"some.json", "JSON"});
  expect_refused(std::string("[]"), {"some.json", "object"});
  expect_refused(std::string(100'000, '['), {"some.json"});
}

TEST(MsrImport, refuses_missing_keys_by_name) {
  for (const char* key : {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"}) {
    Json json = sample();
    json.erase(key);
    expect_refused(json, {"some.json", key, "missing"});
  }
  for (const char* key : {"id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode"}) {
    Json json = sample();
    json["nodes"][1].erase(key);
    expect_refused(json, {"some.json: nodes[1]", key, "missing"});
  }
  for (const char* key : {"sourceId", "destId", "cost"}) {
    Json json = sample();
    json["edges"][2].erase(key);
    expect_refused(json, {"some.json: edges[2]", key, "missing"});
  }
}

TEST(MsrImport, refuses_values_of_other_types_and_out_of_range) {
  struct Case {
    const char* key;
    Json value;
  };
  for (const auto& [key, value] :
       {Case{"id", "7"}, Case{"id", 7.5}, Case{"id", 18446744073709551615ULL}, Case{"supportedOnFpga", 2},
        Case{"supportedOnFpga", "yes"}, Case{"cpuLatency", -1}, Case{"cpuLatency", nullptr}, Case{"fpgaLatency", 1e300},
        Case{"size", -5}, Case{"size", 1e17}, Case{"isBackwardNode", 3}, Case{"colorClass", "red"}, Case{"name", 5}}) {
    Json json = sample();
    json["nodes"][1][key] = value;
    expect_refused(json, {"some.json: nodes[1]", key, value.dump().substr(0, 3)});
  }
  for (const auto& [key, value] :
       {Case{"cost", -0.5}, Case{"cost", 1e9}, Case{"cost", "1"}, Case{"sourceId", 1.5}, Case{"destId", nullptr}}) {
    Json json = sample();
    json["edges"][0][key] = value;
    expect_refused(json, {"some.json: edges[0]", key});
  }
  for (const auto& [key, value] :
       {Case{"maxFPGAs", -1}, Case{"maxFPGAs", 1.5}, Case{"maxFPGAs", 1e9}, Case{"maxCPUs", "1"},
        Case{"maxSizePerFPGA", 0}, Case{"maxSizePerFPGA", -1}, Case{"nodes", 5}, Case{"edges", Json::object()}}) {
    Json json = sample();
    json[key] = value;
    expect_refused(json, {"some.json", key});
  }
}

TEST(MsrImport, refuses_graphs_that_make_no_sense) {
  Json json = sample();
  json["nodes"] = Json::array();
  expect_refused(json, {"nodes is empty"});
  json = sample();
  json["nodes"][0] = 5;
  expect_refused(json, {"nodes[0]", "object"});
  json = sample();
  json["nodes"][0]["id"] = 7;
  expect_refused(json, {"two nodes have the id 7"});
  json = sample();
  json["edges"][0]["destId"] = 99;
  expect_refused(json, {"edges[0]", "destId is 99"});
  json = sample();
  json["edges"].push_back(edge(-3, 7, 0.25));
  expect_refused(json, {"node -3", "cycle"});
  json = sample();
  json["edges"].push_back(edge(7, 7, 0.5));
  expect_refused(json, {"node -3", "cycle"});
  json = sample();
  json["edges"].push_back(edge(20, 7, 0.5));
  expect_refused(json, {"edges[3]", "backward node 20", "forward node 7"});
  json = sample();
  json["edges"][2]["cost"] = 0.6;
  expect_refused(json, {"edges[2]", "0.6", "0.5"});
  json = sample();
  json["maxFPGAs"] = json["maxCPUs"] = 0;
  expect_refused(json, {"maxFPGAs and maxCPUs"});
}

TEST(MsrImport, refuses_files_that_cannot_be_read) {
  EXPECT_THROW((void)import_msr("no/such.json"), Error);
  EXPECT_THROW((void)import_msr("tests"), Error);
}

}  // namespace
}  // namespace sluice
