#include <gtest/gtest.h>

#include <cmath>

#include "runtime/device/host/host_device.h"
#include "tests/device/layer_harness.h"
#include "tests/device/random_arrays.h"
#include "tests/device/reference.h"

namespace sluice {
namespace {

constexpr unsigned kSeed = 77;
constexpr std::int64_t kSamples = 6, kClasses = 5;
const std::vector<std::int32_t> kLabels{0, 4, 2, 2, 1, 3};

struct Loss : testing::Test {
  std::unique_ptr<Device> device = create_host_device();
  LayerHarness harness{*device, make_loss(kClasses), kSamples};
  std::mt19937 random{kSeed};
  std::vector<float> logits = random_array(kSamples * kClasses, random);
  MicrobatchContext context{.valid_samples = kSamples, .loss_scale = 1.0F / 24};
};

TEST_F(Loss, matches_float64) {
  const auto output = harness.forward(logits, context, kLabels);
  const auto expected = reference::forward(harness.layer(), kSamples, {logits.begin(), logits.end()}, {}, kLabels);
  for (std::size_t n = 0; n < expected.size(); ++n) EXPECT_NEAR(output[2 * n], expected[n], 1e-6) << "seed " << kSeed;
}

TEST_F(Loss, gradient_matches_central_differences) {
  harness.forward(logits, context, kLabels);
  const auto gradient = harness.backward_input({}, context);
  reference::Array at(logits.begin(), logits.end());
  const auto total = [&] {
    double sum = 0;
    for (const double loss : reference::forward(harness.layer(), kSamples, at, {}, kLabels)) sum += loss;
    return sum;
  };
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double centre = at[i];
    at[i] = centre + 1e-4;
    const double above = total();
    at[i] = centre - 1e-4;
    const double below = total();
    at[i] = centre;
    EXPECT_NEAR(gradient[i], (above - below) / 2e-4 / 24, 1e-7) << "seed " << kSeed;
  }
}

TEST_F(Loss, counts_a_sample_as_right_if_its_label_has_the_largest_value) {
  for (std::size_t n = 0; n < kLabels.size(); ++n)
    logits[n * kClasses + static_cast<std::size_t>(n < 4 ? kLabels[n] : (kLabels[n] + 1) % 5)] = 2;
  const auto output = harness.forward(logits, context, kLabels);
  for (std::size_t n = 0; n < kLabels.size(); ++n) EXPECT_EQ(output[2 * n + 1], n < 4 ? 1 : 0) << "sample " << n;
}

TEST_F(Loss, ignores_padded_samples) {
  context.valid_samples = 4;
  const auto output = harness.forward(logits, context, kLabels);
  const auto gradient = harness.backward_input({}, context);
  for (std::size_t n = 0; n < kLabels.size(); ++n) {
    EXPECT_EQ(output[2 * n] == 0, n >= 4);
    EXPECT_EQ(gradient[n * kClasses] == 0, n >= 4);
  }
  EXPECT_EQ(output[2 * 5 + 1], 0);
}

TEST_F(Loss, survives_logits_whose_exponential_does_not_fit) {
  for (float& logit : logits) logit *= 3000;
  const auto output = harness.forward(logits, context, kLabels);
  const auto expected = reference::forward(harness.layer(), kSamples, {logits.begin(), logits.end()}, {}, kLabels);
  for (std::size_t n = 0; n < expected.size(); ++n) {
    ASSERT_TRUE(std::isfinite(output[2 * n]));
    EXPECT_NEAR(output[2 * n], expected[n], 1e-3);
  }
}

TEST_F(Loss, is_nan_for_a_label_outside_the_classes) {
  const auto output = harness.forward(logits, context, {0, 5, -1, 2, 1, 3});
  EXPECT_FALSE(std::isnan(output[0]));
  EXPECT_TRUE(std::isnan(output[2]));
  EXPECT_TRUE(std::isnan(output[4]));
}

}  // namespace
}  // namespace sluice
