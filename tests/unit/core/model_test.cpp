#include "core/model.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/unit/core/small_models.h"

namespace sluice {
namespace {

using small_models::bad_input_message;
using small_models::chain_of_three;

TEST(Model, a_small_chain_is_valid) { EXPECT_NO_THROW(validate(chain_of_three())); }

TEST(Model, knows_who_makes_and_who_reads_a_tensor) {
  const Model model = chain_of_three();
  EXPECT_EQ(tensors_by_producer(model), (std::vector<std::vector<TensorId>>{{2}, {3, 4}, {5}}));
  EXPECT_EQ(consumers_by_tensor(model), (std::vector<std::vector<LayerId>>{{0}, {2}, {1}, {2}, {}, {}}));
}

TEST(Model, only_outputs_that_another_layer_reads_have_gradients) {
  const Model model = chain_of_three();
  for (const TensorId tensor : {2, 3}) EXPECT_TRUE(has_gradient(model, tensor)) << tensor;
  for (const TensorId tensor : {0, 1, 4, 5}) EXPECT_FALSE(has_gradient(model, tensor)) << tensor;
}

TEST(Model, adds_up_parameter_bytes) {
  Layer layer;
  layer.parameters = {{"weight", {3, 5}}, {"bias", {3}}};
  EXPECT_EQ(parameter_bytes(layer), 4 * (15 + 3));
}

TEST(Model, kinds_have_names_that_lead_back) {
  for (const LayerKind kind :
       {LayerKind::foreign, LayerKind::convolution, LayerKind::relu, LayerKind::max_pool, LayerKind::average_pool,
        LayerKind::linear, LayerKind::dropout, LayerKind::softmax_cross_entropy})
    EXPECT_EQ(layer_kind_from(to_string(kind)), kind);
  EXPECT_THROW((void)layer_kind_from("attention"), Error);
}

TEST(Model, fingerprint_follows_the_architecture_alone) {
  Model model = chain_of_three();
  const std::uint64_t original = fingerprint(model);
  model.microbatch = 64;
  model.tensors[2].bytes = 1000;
  EXPECT_EQ(fingerprint(model), original);
  model.needs[1].backward_weight = {};
  EXPECT_NE(fingerprint(model), original);
}

TEST(Model, refuses_what_no_network_is) {
  const auto message_with = [](const std::function<void(Model&)>& change) {
    Model model = chain_of_three();
    change(model);
    return bad_input_message([&] { validate(model); });
  };
  EXPECT_EQ(message_with([](Model& m) { m.layers.clear(); }), "model three has no layers");
  EXPECT_EQ(message_with([](Model& m) { m.layers[2].name = m.layers[0].name; }), "two layers are named a");
  EXPECT_NE(message_with([](Model& m) { m.needs.pop_back(); }), "");
  EXPECT_NE(message_with([](Model& m) { m.microbatch = -1; }), "");
  EXPECT_NE(message_with([](Model& m) { m.layers[0].name.clear(); }), "");
  EXPECT_NE(message_with([](Model& m) { m.layers[0].kernel = -1; }), "");
  EXPECT_NE(message_with([](Model& m) { m.layers[0].dropout_probability = 1; }), "");
  EXPECT_NE(message_with([](Model& m) { m.layers[0].input_shape = {1, 0, 3}; }), "");
  EXPECT_NE(message_with([](Model& m) { m.layers[0].parameters = {{"weight", {-3}}}; }), "");
  EXPECT_NE(message_with([](Model& m) { m.tensors[0].bytes = -8; }), "");
  EXPECT_NE(message_with([](Model& m) { m.tensors[0].producer = 1; }), "") << "an input that a layer makes";
  EXPECT_NE(message_with([](Model& m) { m.tensors[2].producer = 3; }), "");
  EXPECT_NE(message_with([](Model& m) { m.needs[0].forward = {6}; }), "");
  EXPECT_NE(message_with([](Model& m) { m.needs[0].forward = {0, 0}; }), "");
}

TEST(Model, refuses_cycles_and_names_both_layers) {
  Model model = chain_of_three();
  model.needs[0].forward.push_back(3);
  const std::string message = bad_input_message([&] { validate(model); });
  EXPECT_NE(message.find("layer a: forward reads tensor out_b of layer b"), std::string::npos) << message;
  EXPECT_NE(message.find("cycle"), std::string::npos) << message;
}

TEST(Model, lets_only_backward_read_what_its_own_layer_made) {
  Model model = chain_of_three();
  model.needs[2].backward_input = {5};
  EXPECT_NO_THROW(validate(model));
  model.needs[2].forward.push_back(5);
  EXPECT_THROW(validate(model), Error);
}

}  // namespace
}  // namespace sluice
