#include "runtime/device/host/host_device.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "tests/device/layer_harness.h"
#include "tests/device/random_arrays.h"

namespace sluice {
namespace {

TEST(HostDevice, sgd_matches_pytorchs_definition_in_float64) {
  constexpr unsigned kSeed = 12;
  constexpr std::int64_t kCount = 37;
  std::mt19937 random(kSeed);
  const SgdSettings settings{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F};
  std::vector<float> weights = random_array(kCount, random), velocity(kCount);
  std::vector<double> expected(weights.begin(), weights.end()), expected_velocity(kCount);
  const auto device = create_host_device();
  const auto stream = device->create_stream();
  for (int step = 0; step < 4; ++step) {
    const auto gradient = random_array(kCount, random);
    device->sgd_update(*stream, weights.data(), velocity.data(), gradient.data(), kCount, settings);
    for (std::size_t i = 0; i < kCount; ++i) {
      expected_velocity[i] = 0.9 * expected_velocity[i] + gradient[i] + 0.01 * expected[i];
      expected[i] -= 0.1 * expected_velocity[i];
      ASSERT_NEAR(weights[i], expected[i], 1e-6) << "step " << step << ", seed " << kSeed;
    }
  }
}

TEST(HostDevice, fingerprint_names_processor_and_library) {
  const std::string fingerprint = create_host_device()->fingerprint();
  EXPECT_TRUE(fingerprint.starts_with("host ")) << fingerprint;
  EXPECT_NE(fingerprint.find(", oneDNN 2."), std::string::npos) << fingerprint;
}

TEST(HostDevice, names_the_bytes_when_memory_is_short) {
  try {
    create_host_device()->allocate(std::int64_t{1} << 60);
    FAIL() << "an exbibyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::runtime_fault);
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos) << error.what();
  }
}

TEST(HostDevice, allocates_nothing_gracefully) { EXPECT_EQ(create_host_device()->allocate(0).bytes(), 0); }

/// Damages a good layer; the device must refuse it and say which one it was.
void expect_refused(Layer layer, const std::function<void(Layer&)>& damage, const std::string& what) {
  damage(layer);
  try {
    (void)create_host_device()->create_kernel(layer, 2);
    ADD_FAILURE() << what << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input) << what;
    EXPECT_NE(std::string(error.what()).find(layer.name), std::string::npos) << error.what();
  }
}

TEST(HostDevice, refuses_layers_that_it_cannot_run_and_names_them) {
  const Layer convolution = make_convolution({3, 8, 8}, 4, 3, 1, 1);
  const Layer linear = make_linear({3, 2, 2}, 5);
  const Layer pool = make_pool(LayerKind::max_pool, {3, 8, 8}, 2, 2, 0);
  expect_refused(
      convolution, [](Layer& l) { l.kind = LayerKind::foreign; }, "a foreign layer");
  expect_refused(
      convolution, [](Layer& l) { l.output_shape[1] = 9; }, "an output larger than the window's");
  expect_refused(
      convolution,
      [](Layer& l) {
        l.input_shape = {3, 64};
      },
      "an image without width");
  expect_refused(
      convolution, [](Layer& l) { l.input_shape[0] = 0; }, "an image without channels");
  expect_refused(
      convolution, [](Layer& l) { l.stride = 0; }, "stride 0");
  expect_refused(
      convolution, [](Layer& l) { l.padding = 3; }, "padding as wide as the kernel");
  expect_refused(
      convolution, [](Layer& l) { l.parameters.pop_back(); }, "a missing bias");
  expect_refused(
      convolution, [](Layer& l) { l.parameters[0].shape[1] = 4; }, "weights for other channels");
  expect_refused(
      linear, [](Layer& l) { l.parameters[0].shape[1] = 13; }, "weights for other features");
  expect_refused(
      linear, [](Layer& l) { l.output_shape = {}; }, "a layer without output");
  expect_refused(
      pool, [](Layer& l) { l.output_shape[0] = 4; }, "a pool that adds channels");
  expect_refused(
      make_pool(LayerKind::max_pool, {1, 40, 40}, 17, 1, 0), [](Layer&) {}, "a place beyond a byte");
  expect_refused(
      make_elementwise(LayerKind::relu, {4}), [](Layer& l) { l.output_shape = {5}; }, "ReLU that grows");
  expect_refused(
      make_loss(10), [](Layer& l) { l.output_shape = {10}; }, "a loss per class");
}

}  // namespace
}  // namespace sluice
