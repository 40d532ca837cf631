#include "core/profile.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/core/small_models.h"

namespace sluice {
namespace {

TEST(Profile, refuses_costs_that_no_measurement_gives_and_names_the_layer) {
  const auto message_with = [](const std::function<void(Profile&)>& change) {
    Profile profile = small_models::profile_of_three();
    EXPECT_NO_THROW(validate(profile));
    change(profile);
    return small_models::bad_input_message([&] { validate(profile); });
  };
  EXPECT_EQ(message_with([](Profile& p) { p.costs[1].forward_s = NAN; }),
            "layer b: forward_s is nan, expected 0 to 1e+06");
  EXPECT_NE(message_with([](Profile& p) { p.costs[1].backward_input_s = -1; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[1].backward_weight_s = INFINITY; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[1].update_s = -1; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[2].parameter_bytes = -4; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[2].workspace_bytes = -4; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[2].packed_bytes = kMostBytes + 1; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs[2].flops = INFINITY; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.threads = -1; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.costs.pop_back(); }), "");
  EXPECT_NE(message_with([](Profile& p) { p.model.needs.pop_back(); }), "");
}

/// Layers "a" and "b" take and make (2), with a weight each; "loss" stays foreign.
Profile profile_with_kernels() {
  Profile profile = small_models::profile_of_three();
  profile.model.tensors[0].bytes = profile.model.tensors[2].bytes = profile.model.tensors[3].bytes = 16;
  for (std::size_t l = 0; l < 2; ++l) {
    Layer& layer = profile.model.layers[l];
    layer.kind = LayerKind::linear;
    layer.input_shape = layer.output_shape = {2};
    layer.parameters = {{"weight", {2, 2}}};
    profile.costs[l].parameter_bytes = 16;
  }
  return profile;
}

TEST(Profile, refuses_sizes_that_the_layers_shapes_do_not_make) {
  const auto message_with = [](const std::function<void(Profile&)>& change) {
    Profile profile = profile_with_kernels();
    EXPECT_NO_THROW(validate(profile));
    change(profile);
    return small_models::bad_input_message([&] { validate(profile); });
  };
  EXPECT_EQ(message_with([](Profile& p) { p.costs[1].parameter_bytes = 20; }),
            "layer b has 16 bytes of parameters, but parameter_bytes is 20: profile the model anew");
  EXPECT_EQ(message_with([](Profile& p) { p.model.tensors[2].bytes = 8; }),
            "tensor out_a of layer a has 8 bytes, but its shape makes 16: profile the model anew");
  EXPECT_NE(message_with([](Profile& p) { p.model.tensors[0].bytes = 4; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.model.microbatch = 3; }), "");
}

TEST(Profile, refuses_sizes_beyond_a_pebibyte_without_overflow) {
  const auto message_with = [](const std::function<void(Profile&)>& change) {
    Profile profile = profile_with_kernels();
    change(profile);
    return small_models::bad_input_message([&] { validate(profile); });
  };
  static constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_NE(message_with([](Profile& p) { p.model.tensors[5].bytes = kHuge; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.model.layers[0].parameters[0].shape = {kHuge, kHuge}; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.model.layers[0].input_shape = {kHuge, kHuge}; }), "");
  EXPECT_NE(message_with([](Profile& p) { p.model.microbatch = kHuge; }), "");
}

}  // namespace
}  // namespace sluice
