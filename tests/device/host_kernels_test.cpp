// Every layer of the host device against float64: forward by the plain reference,
// gradients by central differences of that reference.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/device/host/host_device.h"
#include "tests/device/layer_harness.h"
#include "tests/device/random_arrays.h"
#include "tests/device/reference.h"

namespace sluice {
namespace {

using reference::Array;

constexpr unsigned kSeed = 20240521;
constexpr double kTolerance = 2e-5;  // of the largest value: float32 sums of up to some hundred products

Array widen(const std::vector<float>& values) { return {values.begin(), values.end()}; }

void expect_close(const std::vector<float>& actual, const Array& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], kTolerance * largest) << what << " element " << i;
}

/// One layer, its random input and parameters, and the scalar S = sum of output x direction.
struct Case {
  std::mt19937 random{kSeed};
  std::unique_ptr<Device> device = create_host_device();
  LayerHarness harness;
  std::vector<float> input, direction;
  std::vector<std::vector<float>> parameters;

  Case(const Layer& layer, std::int64_t microbatch) : harness(*device, layer, microbatch) {
    input = spaced_array(harness.input_count(), random);
    direction = random_array(harness.output_count(), random);
    for (const Parameter& parameter : layer.parameters)
      parameters.push_back(random_array(element_count(parameter.shape), random));
    harness.pack(parameters);
  }

  [[nodiscard]] Array expected_output(const Array& at, const std::vector<Array>& with) const {
    return reference::forward(harness.layer(), harness.microbatch(), at, with);
  }
  [[nodiscard]] double scalar(const Array& at, const std::vector<Array>& with) const {
    const Array output = expected_output(at, with);
    return std::inner_product(output.begin(), output.end(), direction.begin(), 0.0);
  }
};

/// The derivative of `scalar()` by `value`, at a kink-free distance.
template <typename Scalar>
double central_difference(double& value, Scalar scalar) {
  constexpr double kStep = 1e-3;
  const double centre = value;
  value = centre + kStep;
  const double above = scalar();
  value = centre - kStep;
  const double below = scalar();
  value = centre;
  return (above - below) / (2 * kStep);
}

/// `actual` against central differences, at up to 150 randomly chosen elements.
template <typename Scalar>
void expect_gradient(const std::vector<float>& actual, Array& values, std::mt19937& random, Scalar scalar,
                     const std::string& what) {
  ASSERT_EQ(actual.size(), values.size()) << what;
  std::vector<std::size_t> chosen(values.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  std::shuffle(chosen.begin(), chosen.end(), random);
  chosen.resize(std::min<std::size_t>(chosen.size(), 150));
  for (const std::size_t i : chosen) {
    const double expected = central_difference(values[i], scalar);
    ASSERT_NEAR(actual[i], expected, kTolerance * std::max(10.0, std::abs(expected))) << what << " element " << i;
  }
}

void expect_layer_is_right(const Layer& layer, std::int64_t microbatch) {
  SCOPED_TRACE(testing::Message() << to_string(layer.kind) << ", micro-batch " << microbatch << ", input "
                                  << testing::PrintToString(layer.input_shape) << ", output "
                                  << testing::PrintToString(layer.output_shape) << ", kernel " << layer.kernel
                                  << ", stride " << layer.stride << ", padding " << layer.padding << ", seed "
                                  << kSeed);
  Case c(layer, microbatch);
  Array input = widen(c.input);
  std::vector<Array> parameters;
  for (const auto& values : c.parameters) parameters.push_back(widen(values));
  const auto scalar = [&] { return c.scalar(input, parameters); };

  expect_close(c.harness.forward(c.input), c.expected_output(input, parameters), "output");
  expect_gradient(c.harness.backward_input(c.direction), input, c.random, scalar, "input gradient");
  if (parameters.empty()) return;
  c.harness.backward_weight(c.direction, true);
  const auto gradients = c.harness.gradients();
  expect_gradient(gradients[0], parameters[0], c.random, scalar, "weight gradient");
  expect_gradient(gradients[1], parameters[1], c.random, scalar, "bias gradient");
}

TEST(HostKernels, convolutions_match_float64) {
  expect_layer_is_right(make_convolution({1, 5, 5}, 1, 3, 1, 0), 1);
  expect_layer_is_right(make_convolution({1, 7, 6}, 6, 5, 1, 2), 2);
  expect_layer_is_right(make_convolution({3, 9, 7}, 5, 3, 2, 1), 3);
  expect_layer_is_right(make_convolution({6, 6, 6}, 16, 5, 1, 0), 2);
  expect_layer_is_right(make_convolution({16, 5, 5}, 32, 3, 1, 1), 2);
  expect_layer_is_right(make_convolution({17, 4, 3}, 33, 1, 1, 0), 1);
  expect_layer_is_right(make_convolution({3, 11, 11}, 8, 4, 3, 2), 2);
  expect_layer_is_right(make_convolution({64, 4, 4}, 64, 3, 1, 1), 1);
}

TEST(HostKernels, linear_layers_match_float64) {
  expect_layer_is_right(make_linear({1}, 1), 1);
  expect_layer_is_right(make_linear({7}, 3), 5);
  expect_layer_is_right(make_linear({84}, 10), 4);
  expect_layer_is_right(make_linear({128}, 64), 8);
}

TEST(HostKernels, linear_layers_flatten_images_in_channel_row_column_order) {
  expect_layer_is_right(make_linear({3, 2, 4}, 5), 2);
  expect_layer_is_right(make_linear({16, 5, 5}, 12), 3);
  expect_layer_is_right(make_linear({32, 1, 1}, 16), 1);
}

TEST(HostKernels, relu_matches_float64) {
  expect_layer_is_right(make_elementwise(LayerKind::relu, {3, 5, 7}), 2);
  expect_layer_is_right(make_elementwise(LayerKind::relu, {11}), 1);
}

TEST(HostKernels, pools_match_float64) {
  for (const LayerKind kind : {LayerKind::max_pool, LayerKind::average_pool}) {
    expect_layer_is_right(make_pool(kind, {1, 4, 4}, 2, 2, 0), 1);
    expect_layer_is_right(make_pool(kind, {6, 5, 7}, 2, 2, 0), 2);
    expect_layer_is_right(make_pool(kind, {16, 7, 7}, 3, 2, 1), 2);
    expect_layer_is_right(make_pool(kind, {3, 6, 5}, 3, 1, 2), 1);
    expect_layer_is_right(make_pool(kind, {2, 8, 8}, 2, 3, 0), 3);
  }
}

TEST(HostKernels, weight_gradients_add_up_over_microbatches) {
  for (const Layer& layer : {make_convolution({16, 5, 5}, 32, 3, 1, 1), make_linear({16, 3, 3}, 24)}) {
    Case c(layer, 2);
    std::vector<Array> sums;
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      c.harness.forward(random_array(c.harness.input_count(), c.random));
      c.harness.backward_weight(c.direction, true);
      const auto alone = c.harness.gradients();
      if (sums.empty()) sums = {Array(alone[0].size()), Array(alone[1].size())};
      for (std::size_t p = 0; p < alone.size(); ++p)
        for (std::size_t i = 0; i < alone[p].size(); ++i) sums[p][i] += alone[p][i];
    }
    c.random.seed(kSeed);
    Case again(layer, 2);
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      again.harness.forward(random_array(again.harness.input_count(), again.random));
      again.harness.backward_weight(again.direction, microbatch == 0);
    }
    const auto added = again.harness.gradients();
    for (std::size_t p = 0; p < added.size(); ++p) expect_close(added[p], sums[p], layer.parameters[p].name);
  }
}

TEST(HostKernels, repeated_calls_agree_bit_for_bit) {
  for (const Layer& layer : {make_convolution({32, 9, 9}, 48, 3, 1, 1), make_linear({64, 4, 4}, 100)}) {
    Case c(layer, 4);
    const auto output = c.harness.forward(c.input);
    const auto input_gradient = c.harness.backward_input(c.direction);
    c.harness.backward_weight(c.direction, true);
    const auto gradients = c.harness.gradients();
    for (int repeat = 0; repeat < 5; ++repeat) {
      EXPECT_EQ(c.harness.forward(c.input), output);
      EXPECT_EQ(c.harness.backward_input(c.direction), input_gradient);
      c.harness.backward_weight(c.direction, true);
      EXPECT_EQ(c.harness.gradients(), gradients);
    }
  }
}

TEST(HostKernels, max_pool_keeps_the_place_of_the_first_maximum) {
  const auto device = create_host_device();
  LayerHarness pool(*device, make_pool(LayerKind::max_pool, {1, 2, 4}, 2, 2, 0), 1);
  EXPECT_EQ(pool.forward({1, 5, 3, 3,  //
                          5, 2, 3, 3}),
            (std::vector<float>{5, 3}));
  EXPECT_EQ(pool.auxiliary(), (std::vector<std::uint8_t>{1, 0}));
}

TEST(HostKernels, nan_reaches_the_output_of_every_layer) {
  const auto device = create_host_device();
  for (const Layer& layer :
       {make_convolution({3, 4, 4}, 2, 3, 1, 1), make_linear({3, 4, 4}, 2),
        make_elementwise(LayerKind::relu, {3, 4, 4}), make_pool(LayerKind::max_pool, {3, 4, 4}, 2, 2, 0),
        make_pool(LayerKind::average_pool, {3, 4, 4}, 2, 2, 0), make_loss(48)}) {
    LayerHarness harness(*device, layer, 1);
    std::vector<std::vector<float>> parameters;
    for (const Parameter& parameter : layer.parameters)
      parameters.emplace_back(static_cast<std::size_t>(element_count(parameter.shape)), 0.5F);
    harness.pack(parameters);
    for (const std::size_t place : {0U, 20U, 47U}) {
      std::vector<float> input(48, 1.0F);
      input[place] = std::nanf("");
      const auto output = harness.forward(input, {.valid_samples = 1}, {3});
      EXPECT_TRUE(std::any_of(output.begin(), output.end(), [](float x) { return std::isnan(x); })) << layer.name;
    }
  }
}

}  // namespace
}  // namespace sluice
