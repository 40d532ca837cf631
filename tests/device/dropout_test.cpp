#include <gtest/gtest.h>

#include <cmath>

#include "runtime/device/host/host_device.h"
#include "tests/device/layer_harness.h"

namespace sluice {
namespace {

constexpr std::int64_t kFeatures = 1003;  // not a multiple of what one Philox call gives
constexpr std::int64_t kSamples = 8;

Layer make_dropout(double probability) {
  Layer layer = make_elementwise(LayerKind::dropout, {kFeatures});
  layer.dropout_probability = probability;
  return layer;
}

std::vector<float> ones(std::int64_t samples) {
  return std::vector<float>(static_cast<std::size_t>(samples * kFeatures), 1.0F);
}

struct Dropout : testing::Test {
  std::unique_ptr<Device> device = create_host_device();
  MicrobatchContext context{.seed = 5, .step = 3, .first_position = 16};

  [[nodiscard]] std::vector<float> mask(const Layer& layer, const MicrobatchContext& with) {
    return LayerHarness(*device, layer, kSamples).forward(ones(kSamples), with);
  }
  [[nodiscard]] std::vector<float> mask() { return mask(make_dropout(0.5), context); }
};

TEST_F(Dropout, keeps_the_expected_share_and_scales_it_up) {
  for (const double probability : {0.0, 0.1, 0.5, 0.9}) {
    const auto kept = static_cast<float>(1 / (1 - probability));
    std::int64_t count = 0;
    for (const float value : mask(make_dropout(probability), context)) {
      ASSERT_TRUE(value == 0 || std::abs(value - kept) < 1e-5F * kept) << value;
      count += value != 0;
    }
    const double total = kSamples * kFeatures;
    const double deviation = std::sqrt(total * probability * (1 - probability));
    EXPECT_NEAR(static_cast<double>(count), total * (1 - probability), 4 * deviation) << "p = " << probability;
  }
}

TEST_F(Dropout, mask_does_not_depend_on_how_the_batch_is_cut) {
  const auto whole = mask();
  for (const std::int64_t cut : {1, 2, 4}) {
    LayerHarness part(*device, make_dropout(0.5), cut);
    for (std::int64_t first = 0; first < kSamples; first += cut) {
      MicrobatchContext here = context;
      here.first_position += first;
      const auto begin = whole.begin() + first * kFeatures;
      EXPECT_EQ(part.forward(ones(cut), here), std::vector<float>(begin, begin + cut * kFeatures));
    }
  }
}

TEST_F(Dropout, backward_uses_the_mask_of_forward) {
  LayerHarness harness(*device, make_dropout(0.5), kSamples);
  const auto forward = harness.forward(ones(kSamples), context);
  EXPECT_EQ(harness.backward_input(ones(kSamples), context), forward);
}

TEST_F(Dropout, mask_changes_with_seed_step_position_and_layer) {
  const auto first = mask();
  EXPECT_EQ(mask(), first);
  for (MicrobatchContext other : {MicrobatchContext{6, 3, 16}, MicrobatchContext{5, 4, 16},
                                  MicrobatchContext{5, 3 + (std::int64_t{1} << 32), 16}, MicrobatchContext{5, 3, 24}})
    EXPECT_NE(mask(make_dropout(0.5), other), first);
  Layer renamed = make_dropout(0.5);
  renamed.name = "another";
  EXPECT_NE(mask(renamed, context), first);
}

TEST_F(Dropout, passes_everything_in_evaluation) {
  context.training = false;
  EXPECT_EQ(mask(), ones(kSamples));
}

}  // namespace
}  // namespace sluice
