#include "runtime/nn/layer_runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/device/host/host_device.h"
#include "runtime/nn/models.h"
#include "tests/device/chain_run.h"
#include "tests/device/layer_harness.h"
#include "tests/device/random_arrays.h"
#include "tests/device/reference.h"

namespace sluice {
namespace {

constexpr unsigned kSeed = 4711;
constexpr std::int64_t kSamples = 2;

using reference::Array;

Model small_network() {
  ModelBuilder builder("small", {2, 9, 8}, 3, kSamples);
  builder.convolution("conv", 4, 3, 1, 1).relu("relu").max_pool("max", 2, 2).average_pool("average", 2, 2);
  return builder.linear("fc", 3).softmax_cross_entropy("loss");
}

std::vector<std::int32_t> random_labels(const Model& model, std::mt19937& random) {
  std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(model.classes) - 1);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(model.microbatch));
  for (auto& label : labels) label = any(random);
  return labels;
}

std::vector<float> random_images(const Model& model, std::mt19937& random) {
  return random_array(model.microbatch * element_count(model.layers[0].input_shape), random);
}

/// Sum of the samples' losses, all in float64. `masters`: one array for each layer.
double reference_loss(const Model& model, Array values, const std::vector<Array>& masters,
                      const std::vector<std::int32_t>& labels) {
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    std::vector<Array> parameters;
    auto next = masters[l].begin();
    for (const Parameter& parameter : model.layers[l].parameters) {
      parameters.emplace_back(next, next + element_count(parameter.shape));
      next += element_count(parameter.shape);
    }
    values = reference::forward(model.layers[l], model.microbatch, values, parameters, labels);
  }
  double sum = 0;
  for (const double loss : values) sum += loss;
  return sum;
}

std::vector<Array> widen(const std::vector<std::vector<float>>& arrays) {
  std::vector<Array> wide;
  for (const auto& array : arrays) wide.emplace_back(array.begin(), array.end());
  return wide;
}

TEST(LayerRuntime, gradients_of_a_whole_network_match_central_differences) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const Model model = small_network();
  const auto device = create_host_device();
  ChainRun chain(*device, model, kSeed);
  const auto images = random_images(model, random);
  const auto labels = random_labels(model, random);
  const auto losses = chain.run(images, labels, {.valid_samples = kSamples, .loss_scale = 1}, true);

  std::vector<Array> masters = widen(chain.masters());
  const Array input(images.begin(), images.end());
  const auto total = [&] { return reference_loss(model, input, masters, labels); };
  EXPECT_NEAR(losses[0] + losses[1], total(), 1e-5);
  const auto gradients = chain.gradients();
  for (std::size_t l = 0; l < masters.size(); ++l)
    for (std::size_t i = 0; i < masters[l].size(); ++i) {
      constexpr double kStep = 1e-6;  // small: few places where ReLU or max pooling would switch
      const double centre = masters[l][i];
      masters[l][i] = centre + kStep;
      const double above = total();
      masters[l][i] = centre - kStep;
      const double below = total();
      masters[l][i] = centre;
      ASSERT_NEAR(gradients[l][i], (above - below) / (2 * kStep), 2e-5)
          << "layer " << model.layers[l].name << " parameter " << i;
    }
}

TEST(LayerRuntime, training_lowers_the_loss_of_lenet5) {
  std::mt19937 random(kSeed);
  const Model model = build_model("lenet5", {1, 28, 28}, 10, 8);
  const auto device = create_host_device();
  ChainRun chain(*device, model, kSeed);
  const auto images = random_images(model, random);
  const auto labels = random_labels(model, random);
  const auto mean_loss = [&] {
    float sum = 0;
    for (const float loss : chain.run(images, labels, {.valid_samples = 8, .loss_scale = 1.0F / 8}, true)) sum += loss;
    return sum / 8;
  };
  const float before = mean_loss();
  for (int step = 0; step < 60; ++step) {
    chain.update({.learning_rate = 0.05F, .momentum = 0.9F});
    ASSERT_TRUE(std::isfinite(mean_loss())) << "step " << step;
  }
  EXPECT_LT(mean_loss(), 0.2F * before) << "seed " << kSeed;
}

TEST(LayerRuntime, initial_values_fill_hes_interval_and_biases_are_zero) {
  const Layer layer = make_convolution({16, 8, 8}, 32, 3, 1, 1);
  const double bound = std::sqrt(6.0 / (16 * 9));
  const auto weights = initial_values(layer, layer.parameters[0], kSeed);
  double sum = 0, squares = 0;
  for (const float weight : weights) {
    ASSERT_LE(std::abs(weight), bound);
    sum += weight;
    squares += double{weight} * weight;
  }
  const auto count = static_cast<double>(weights.size());
  EXPECT_NEAR(sum / count, 0, 4 * bound / std::sqrt(3 * count));
  EXPECT_NEAR(squares / count, bound * bound / 3, 0.05 * bound * bound);
  EXPECT_GT(*std::max_element(weights.begin(), weights.end()), 0.99 * bound);
  for (const float bias : initial_values(layer, layer.parameters[1], kSeed)) EXPECT_EQ(bias, 0);
}

TEST(LayerRuntime, initial_values_depend_on_seed_and_layer_name_only) {
  Layer layer = make_linear({20}, 30);
  const auto weights = initial_values(layer, layer.parameters[0], 1);
  EXPECT_EQ(initial_values(layer, layer.parameters[0], 1), weights);
  EXPECT_NE(initial_values(layer, layer.parameters[0], 2), weights);
  layer.name = "another";
  EXPECT_NE(initial_values(layer, layer.parameters[0], 1), weights);
}

TEST(LayerRuntime, masters_hold_weight_then_bias_in_one_piece) {
  const auto device = create_host_device();
  const auto stream = device->create_stream();
  LayerRuntime layer(*device, make_linear({4}, 3), 2, false);
  EXPECT_EQ(layer.masters_bytes(), 4 * (12 + 3));
  EXPECT_EQ(layer.gradients(), nullptr);
  EXPECT_EQ(layer.momentum(), nullptr);
  std::vector<float> values(15);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  layer.load(*stream, values);
  EXPECT_EQ(layer.save(*stream), values);
  std::vector<float> input{1, 0, 0, 0, 0, 0, 0, 1}, output(6);
  const Buffer workspace = device->allocate(layer.workspace_bytes());
  layer.forward(*stream, {.input = input.data(), .output = output.data(), .workspace = workspace.data()}, {});
  EXPECT_EQ(output, (std::vector<float>{0 + 12, 4 + 13, 8 + 14, 3 + 12, 7 + 13, 11 + 14}));
}

TEST(LayerRuntime, keeps_older_versions_beside_the_newest_in_a_ring) {
  const auto device = create_host_device();
  const auto stream = device->create_stream();
  const SgdSettings sgd{.learning_rate = 0.5F, .momentum = 0.5F, .weight_decay = 0.1F};
  std::mt19937 random(kSeed);
  const std::vector<float> input = random_array(8, random), output_gradient = random_array(6, random);
  LayerRuntime in_place(*device, make_linear({4}, 3), 2, true), ring(*device, make_linear({4}, 3), 2, true, 2);
  const Buffer workspace = device->allocate(in_place.workspace_bytes());
  const auto output = [&](LayerRuntime& layer, std::int64_t version) {
    std::vector<float> values(6);
    layer.forward(*stream, {.input = input.data(), .output = values.data(), .workspace = workspace.data()}, {},
                  version);
    return values;
  };
  for (LayerRuntime* layer : {&in_place, &ring}) {
    layer->init(*stream, 1);
    layer->backward_weight(
        *stream, {.input = input.data(), .output_gradient = output_gradient.data(), .workspace = workspace.data()}, {},
        true);
  }
  // What one version in its place held after 0, 1, 2 ... updates.
  std::vector<std::vector<float>> expected{output(in_place, 0)};
  for (std::int64_t version = 1; version <= 3; ++version) {
    in_place.update(*stream, sgd);
    ring.update(*stream, sgd, version);
    expected.push_back(output(in_place, 0));
    EXPECT_NE(expected[static_cast<std::size_t>(version)], expected[static_cast<std::size_t>(version - 1)]);
    EXPECT_EQ(output(ring, version), expected[static_cast<std::size_t>(version)]);
    EXPECT_EQ(output(ring, version - 1), expected[static_cast<std::size_t>(version - 1)]);
    EXPECT_EQ(ring.save(*stream), in_place.save(*stream));
  }
  ring.restart_versions();
  EXPECT_EQ(output(ring, 0), expected[3]);
  EXPECT_EQ(ring.save(*stream), in_place.save(*stream));
  in_place.update(*stream, sgd);
  ring.update(*stream, sgd, 1);
  EXPECT_EQ(output(ring, 0), expected[3]);
  EXPECT_EQ(output(ring, 1), output(in_place, 0));
}

TEST(LayerRuntime, refuses_the_wrong_number_of_values) {
  const auto device = create_host_device();
  const auto stream = device->create_stream();
  LayerRuntime layer(*device, make_linear({4}, 3), 2, false);
  EXPECT_THROW(layer.load(*stream, std::vector<float>(14)), Error);
}

TEST(LayerRuntime, layers_without_parameters_pass_through_everything) {
  const auto device = create_host_device();
  const auto stream = device->create_stream();
  LayerRuntime layer(*device, make_elementwise(LayerKind::relu, {4}), 2, true);
  layer.init(*stream, 1);
  layer.pack(*stream);
  layer.backward_weight(*stream, {}, {}, true);
  layer.update(*stream, {});
  EXPECT_EQ(layer.masters(), nullptr);
  EXPECT_TRUE(layer.save(*stream).empty());
}

}  // namespace
}  // namespace sluice
