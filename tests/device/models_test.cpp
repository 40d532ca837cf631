#include "runtime/nn/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"

namespace sluice {
namespace {

std::int64_t parameter_count(const Model& model) {
  std::int64_t bytes = 0;
  for (const Layer& layer : model.layers) bytes += parameter_bytes(layer);
  return bytes / 4;
}

const Layer& layer(const Model& model, const std::string& name) {
  return *std::find_if(model.layers.begin(), model.layers.end(), [&](const Layer& l) { return l.name == name; });
}

const Tensor& tensor(const Model& model, const std::string& name) {
  return *std::find_if(model.tensors.begin(), model.tensors.end(), [&](const Tensor& t) { return t.name == name; });
}

double total_flops(const Model& model) {
  double sum = 0;
  for (const Layer& each : model.layers) sum += flops(each);
  return sum;
}

TEST(Models, have_the_published_numbers_of_parameters) {
  // LeCun 1998's network with full connections in conv2; Simonyan 2015, table 2, as torchvision counts them.
  EXPECT_EQ(parameter_count(build_model("lenet5", {1, 28, 28}, 10, 1)), 61706);
  EXPECT_EQ(parameter_count(build_model("vgg11", {3, 224, 224}, 1000, 1)), 132863336);
  EXPECT_EQ(parameter_count(build_model("vgg16", {3, 224, 224}, 1000, 1)), 138357544);
}

TEST(Models, vgg_has_the_published_operation_counts) {
  // 7.61 and 15.47 billion multiply-adds of convolutions and linear layers at 224 x 224.
  EXPECT_NEAR(total_flops(build_model("vgg11", {3, 224, 224}, 1000, 1)), 2 * 7.61e9, 0.02e9);
  EXPECT_NEAR(total_flops(build_model("vgg16", {3, 224, 224}, 1000, 1)), 2 * 15.47e9, 0.02e9);
}

TEST(Models, follow_image_size_and_classes) {
  const Model model = build_model("vgg16", {1, 75, 40}, 7, 4);
  EXPECT_EQ(layer(model, "fc1").input_shape, (std::vector<std::int64_t>{512, 2, 1}));
  EXPECT_EQ(layer(model, "fc3").output_shape, (std::vector<std::int64_t>{7}));
  EXPECT_EQ(layer(build_model("lenet5", {3, 32, 36}, 4, 1), "fc1").input_shape, (std::vector<std::int64_t>{16, 6, 7}));
}

TEST(Models, tensor_table_counts_bytes_of_a_microbatch) {
  const Model model = build_model("lenet5", {1, 28, 28}, 10, 8);
  EXPECT_EQ(tensor(model, "input").bytes, 8 * 28 * 28 * 4);
  EXPECT_EQ(tensor(model, "labels").bytes, 8 * 4);
  EXPECT_EQ(tensor(model, "conv1").bytes, 8 * 6 * 28 * 28 * 4);
  EXPECT_EQ(tensor(model, "pool1/places").bytes, 8 * 6 * 14 * 14);
  EXPECT_EQ(tensor(model, "loss/probabilities").bytes, 8 * 10 * 4);
  EXPECT_EQ(tensor(model, "loss").bytes, 8 * 2 * 4);
}

TEST(Models, works_read_what_their_kernels_need) {
  const Model model = build_model("lenet5", {1, 28, 28}, 10, 8);
  const auto names = [&](const std::vector<TensorId>& ids) {
    std::vector<std::string> list;
    for (const TensorId id : ids) list.push_back(model.tensors[static_cast<std::size_t>(id)].name);
    return list;
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(names(model.needs[0].forward), List{"input"});
  EXPECT_EQ(names(model.needs[0].backward_input), List{});
  EXPECT_EQ(names(model.needs[0].backward_weight), List{"input"});
  EXPECT_EQ(names(model.needs[1].backward_input), List{"relu1"});
  EXPECT_EQ(names(model.needs[2].forward), List{"relu1"});
  EXPECT_EQ(names(model.needs[2].backward_input), List{"pool1/places"});
  EXPECT_EQ(names(model.needs[3].forward), List{"pool1"});
  EXPECT_EQ(names(model.needs.back().forward), (List{"fc3", "labels"}));
  EXPECT_EQ(names(model.needs.back().backward_input), (List{"labels", "loss/probabilities"}));
}

TEST(Models, microbatch_changes_bytes_and_nothing_else) {
  for (const char* name : model_names())
    EXPECT_EQ(with_microbatch(build_model(name, {3, 64, 64}, 10, 3), 7), build_model(name, {3, 64, 64}, 10, 7));
}

void expect_bad_input(const std::string& part, auto make) {
  try {
    (void)make();
    ADD_FAILURE() << "accepted, although: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Models, refuse_images_that_vanish_and_name_the_layer) {
  expect_bad_input("pool5", [] { return build_model("vgg16", {3, 31, 64}, 10, 1); });
  expect_bad_input("conv2", [] { return build_model("lenet5", {1, 8, 28}, 10, 1); });
}

TEST(Models, refuse_unknown_names_and_empty_extents) {
  expect_bad_input("lenet5, vgg11, vgg16", [] { return build_model("resnet50", {3, 224, 224}, 10, 1); });
  expect_bad_input("channels is 0", [] { return build_model("lenet5", {0, 28, 28}, 10, 1); });
  expect_bad_input("classes is 0", [] { return build_model("lenet5", {1, 28, 28}, 0, 1); });
  expect_bad_input("micro-batch size is -2", [] { return build_model("lenet5", {1, 28, 28}, 10, -2); });
  expect_bad_input("micro-batch", [] { return with_microbatch(Model(), 4); });
}

TEST(Models, builder_refuses_chains_that_do_not_fit_together) {
  expect_bad_input("flattened", [] {
    ModelBuilder builder("m", {1, 8, 8}, 2, 1);
    return builder.linear("fc", 2).convolution("conv", 4, 3).softmax_cross_entropy("loss");
  });
  expect_bad_input("classes", [] {
    return ModelBuilder("m", {1, 8, 8}, 2, 1).linear("fc", 3).softmax_cross_entropy("loss");
  });
  expect_bad_input("two layers are named fc", [] {
    return ModelBuilder("m", {1, 8, 8}, 2, 1).linear("fc", 3).linear("fc", 2).softmax_cross_entropy("loss");
  });
}

}  // namespace
}  // namespace sluice
