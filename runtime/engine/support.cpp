#include "runtime/engine/support.h"

#include <algorithm>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "runtime/nn/model_builder.h"

namespace sluice {
namespace {

/// The kernels take one input (and the loss its labels); sums of gradients of
/// several consumers have no kernel.
void require_chain(const Model& model) {
  const auto made = tensors_by_producer(model);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const std::string& name = model.layers[layer].name;
    if (model.layers[layer].kind == LayerKind::foreign)
      throw bad_input(text("layer ", name, " was imported without kernels: it can be planned, not trained"));
    const auto& reads = model.needs[layer].forward;
    const auto inputs = std::count_if(reads.begin(), reads.end(), [&](TensorId tensor) {
      return model.tensors[static_cast<std::size_t>(tensor)].kind != TensorKind::labels;
    });
    if (made[layer].empty()) throw bad_input(text("layer ", name, " has no output"));
    if (inputs != 1) throw bad_input(text("layer ", name, " reads ", inputs, " tensors: training knows one each"));
  }
  const auto consumers = consumers_by_tensor(model);
  for (std::size_t tensor = 0; tensor < consumers.size(); ++tensor)
    if (has_gradient(model, static_cast<TensorId>(tensor)) && consumers[tensor].size() > 1)
      throw bad_input(text("tensor ", model.tensors[tensor].name, " is read by ", consumers[tensor].size(),
                           " layers: training knows one each"));
}

/// Kernels find every tensor that they touch, as large as they think it is.
void require_tables_of_layers(const Model& model) {
  const Model expected = rebuilt(model);
  const auto refuse = [](const std::string& what) {
    throw bad_input(text(what, " not what the model's layers make of it: profile the model anew"));
  };
  for (std::size_t l = 0; l < model.layers.size(); ++l)
    if (expected.layers[l].input_shape != model.layers[l].input_shape || expected.needs[l] != model.needs[l])
      refuse(text("what layer ", model.layers[l].name, " takes and needs is"));
  if (expected.tensors.size() != model.tensors.size()) refuse("the number of tensors is");
  for (std::size_t t = 0; t < model.tensors.size(); ++t)
    if (expected.tensors[t] != model.tensors[t]) refuse(text("tensor ", model.tensors[t].name, " is"));
}

}  // namespace

void require_executable(const Plan& plan) {
  if (plan.profile.model.microbatch < 1) throw bad_input("the plan's model has no micro-batch size");
  require_chain(plan.profile.model);
  require_tables_of_layers(plan.profile.model);
  for (const ElementType type : {plan.compute_type, plan.boundary_type, plan.master_type})
    if (type != ElementType::float32) throw bad_input("the plan asks for an element type other than float32");
  const std::vector<const char*> needed =
      asynchronous(plan) ? std::vector{"fill", "steady", "drain", "evaluate"} : std::vector{"step", "evaluate"};
  for (const char* name : needed) (void)program(plan, name);
}

}  // namespace sluice
