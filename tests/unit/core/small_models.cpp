#include "tests/unit/core/small_models.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace sluice::small_models {
namespace {

Tensor tensor(const std::string& name, LayerId producer, TensorKind kind) {
  return {.name = name, .producer = producer, .kind = kind, .bytes = 8};
}

}  // namespace

Model chain_of_three() {
  Model model;
  model.name = "three";
  model.microbatch = 2;
  for (const char* name : {"a", "b", "loss"}) model.layers.emplace_back().name = name;
  model.tensors = {tensor("input", kDataset, TensorKind::input), tensor("labels", kDataset, TensorKind::labels),
                   tensor("out_a", 0, TensorKind::output),       tensor("out_b", 1, TensorKind::output),
                   tensor("aux_b", 1, TensorKind::auxiliary),    tensor("out_loss", 2, TensorKind::output)};
  model.needs = {{{0}, {}, {0}}, {{2}, {4}, {2}}, {{3, 1}, {3}, {}}};
  return model;
}

Profile profile_of_three() {
  Profile profile;
  profile.model = chain_of_three();
  for (int layer = 1; layer <= 3; ++layer)
    profile.costs.push_back({.forward_s = 1.0 * layer,
                             .backward_input_s = 10.0 * layer,
                             .backward_weight_s = 100.0 * layer,
                             .update_s = 0.5,
                             .parameter_bytes = 4});
  return profile;
}

Plan plan_of_three() {
  Plan plan;
  plan.profile = profile_of_three();
  plan.cluster = uniform_cluster(1, 2, {}, {});
  plan.schedule = "gpipe";
  plan.microbatches = 2;
  plan.stages = {{Work::forward, 0, {0, 1}, {0}}, {Work::forward, 1, {2}, {1}}, {Work::backward, 1, {0, 1, 2}, {1}}};
  plan.groups = {{.root = 0, .members = {0, 1}}};
  plan.transfers = {{.payload = Payload::activation, .tensor = 3, .group = 0, .bytes = 8},
                    {.payload = Payload::weights, .layer = 0, .group = 0, .bytes = 4}};
  plan.programs = {{"step",
                    {{{.op = Op::load_input, .microbatch = 0},
                      {.op = Op::forward, .stage = 0, .microbatch = 0},
                      {.op = Op::multicast_start, .transfer = 0, .microbatch = 1},
                      {.op = Op::multicast_wait, .transfer = 1}},
                     {{.op = Op::backward, .stage = 2, .microbatch = 1}, {.op = Op::optimizer_step, .stage = 2}}}}};
  return plan;
}

std::string bad_input_message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace sluice::small_models
