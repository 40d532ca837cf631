#include "optimizer/import/pipedream.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

const std::string kFolder = "tests/data/pipedream/";

ImportedProfile import_text(const std::string& contents) {
  std::istringstream in(contents);
  return import_pipedream(in, "some.graph.txt");
}

std::string node(int number, const std::string& description, const std::string& forward = "1.0",
                 const std::string& activation = "8.0") {
  return text("node", number, " -- ", description, " -- forward_compute_time=", forward,
              ", backward_compute_time=2.0, activation_size=", activation, ", parameter_size=4.000\n");
}

void expect_refused(const std::string& contents, const std::string& part_of_message) {
  try {
    (void)import_text(contents);
    ADD_FAILURE() << "accepted: " << contents;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

TEST(Pipedream, totals_are_those_of_the_files) {
  struct Expected {
    const char* name;
    double forward_ms, backward_ms, parameters_mb;
  };
  for (const Expected& e :
       {Expected{"alexnet", 44.801, 40.520, 244.4}, Expected{"vgg16", 233.902, 438.633, 553.4},
        Expected{"gnmt", 33.533, 55.883, 775.1}, Expected{"resnet18", 107.446, 152.296, 46.8},
        Expected{"resnet50", 182.488, 260.931, 102.2}, Expected{"resnet101", 197.306, 213.786, 178.2},
        Expected{"squeezenet1_0", 113.247, 172.119, 5.0}, Expected{"inception_v3", 289.269, 399.769, 108.6}}) {
    const ImportedProfile imported = import_pipedream(kFolder + e.name + ".graph.txt");
    EXPECT_EQ(imported.profile.model.name, e.name);
    EXPECT_TRUE(imported.warnings.empty());
    double forward_s = 0, backward_s = 0, parameters = 0;
    for (const LayerCost& cost : imported.profile.costs) {
      forward_s += cost.forward_s;
      backward_s += cost.backward_input_s;
      parameters += static_cast<double>(cost.parameter_bytes);
    }
    EXPECT_NEAR(forward_s * 1e3, e.forward_ms, 6e-4) << e.name;
    EXPECT_NEAR(backward_s * 1e3, e.backward_ms, 6e-4) << e.name;
    EXPECT_NEAR(parameters * 1e-6, e.parameters_mb, 0.06) << e.name;
  }
}

TEST(Pipedream, inputs_become_dataset_tensors_and_idle_sinks_go) {
  const Profile profile =
      import_text(
          "node9 -- Input0 -- forward_compute_time=600, backward_compute_time=0, "
          "activation_size=16, parameter_size=0\n" +
          node(2, "Linear(in=1, out=2 -- x)") + node(10, "__getitem__(0)") +
          node(3, "LSTM(1)", "1.5", "[8.0; 2.0; 2.0]") + "\tnode9 -- node2\n  node2 -- node3  \n \tnode2 -- node10")
          .profile;
  ASSERT_EQ(profile.model.layers.size(), 2U);
  EXPECT_EQ(profile.model.layers[0].description, "Linear(in=1, out=2 -- x)");
  EXPECT_EQ(profile.costs[1].forward_s, 1.5e-3);
  EXPECT_FALSE(profile.split_backward);
  ASSERT_EQ(profile.model.tensors.size(), 3U);
  const TensorId input = profile.model.needs[0].forward.at(0);
  EXPECT_EQ(profile.model.tensors[static_cast<std::size_t>(input)].kind, TensorKind::input);
  EXPECT_EQ(profile.model.tensors[static_cast<std::size_t>(input)].bytes, 16);
  EXPECT_EQ(profile.model.tensors[2].bytes, 12);
  EXPECT_EQ(profile.model.needs[1].backward_input, profile.model.needs[1].forward);
}

TEST(Pipedream, sorts_where_node_numbers_are_not_topological) {
  const Profile profile =
      import_text(node(1, "Last") + node(2, "First") + node(3, "Middle") + "\tnode2 -- node3\n\tnode3 -- node1\n")
          .profile;
  EXPECT_EQ(profile.model.layers[0].description, "First");
  EXPECT_EQ(profile.model.layers[1].description, "Middle");
  EXPECT_EQ(profile.model.layers[2].description, "Last");
}

TEST(Pipedream, warns_of_a_profile_taken_without_waiting) {
  EXPECT_EQ(import_pipedream(kFolder + "resnet18.graph_copy.txt").warnings.size(), 1U);
}

TEST(Pipedream, names_file_and_line_of_what_is_wrong) {
  expect_refused("", "no line describes a node");
  expect_refused(node(1, "A") + node(1, "B"), "some.graph.txt:2: node1 is described twice, first in line 1");
  expect_refused(node(1, "A", "nan"), "some.graph.txt:1: forward_compute_time is nan");
  expect_refused(node(1, "A", "-1"), "forward_compute_time is -1");
  expect_refused(node(1, "A", "inf"), "forward_compute_time is inf");
  expect_refused(node(1, "A", "1e999"), "forward_compute_time is '1e999'");
  expect_refused(node(1, "A", "fast"), "forward_compute_time is 'fast'");
  expect_refused(node(1, "A", "1", "[1.0; nan]"), "activation_size is nan");
  expect_refused(node(1, "A", "1", "[1.0; 2"), "activation_size: the list has no closing bracket");
  expect_refused(node(1, "A", "1", "[]"), "activation_size is ''");
  expect_refused(node(1, "A", "1", "1e30"), "activation_size is 1e+30 bytes");
  expect_refused("node1 -- A -- forward_compute_time=1\n", "backward_compute_time is missing");
  expect_refused("node1 -- forward_compute_time=1\n", "expected NODE -- DESCRIPTION");
  expect_refused(node(1, "A") + "hello\n", "some.graph.txt:2: neither a node");
  expect_refused(node(1, "A") + "\tnode1 -- node7\n", "some.graph.txt:2: the edge names node7");
  expect_refused(node(1, "A") + node(2, "B") + "\tnode1 -- node2\n\tnode2 -- node1\n", "cycle");
  expect_refused(node(1, "A") + "\tnode1 -- node1\n", "cycle");
  expect_refused(node(1, "A") + "\tnode1 -- layer2\n", "'layer2' is not a node's name");
  expect_refused(node(1, "A") + "\tnode1 -- node99999999999\n", "'node99999999999' is not a node's name");
  expect_refused(node(1, "A") + "\tnode1 -- node-1\n", "'node-1' is not a node's name");
  expect_refused(node(1, "A") + "\tnode1 -- node\n", "'node' is not a node's name");
  expect_refused(node(1, "Input"), "all nodes are inputs");
  EXPECT_THROW((void)import_pipedream("tests/data/no_such_file"), Error);
  EXPECT_THROW((void)import_pipedream("tests"), Error);
}

}  // namespace
}  // namespace sluice
