#include "runtime/engine/support.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

bool executable(Op op) {
  switch (op) {
    case Op::load_input:
    case Op::load_labels:
    case Op::forward:
    case Op::backward:
    case Op::multicast_start:
    case Op::multicast_wait:
    case Op::optimizer_step:
      return true;
    case Op::backward_input:
    case Op::backward_weight:
    case Op::recompute:
    case Op::all_reduce_start:
    case Op::all_reduce_wait:
    case Op::all_to_all_start:
    case Op::all_to_all_wait:
    case Op::gather_norms:
    case Op::switch_version:
      return false;
  }
  return false;
}

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

/// Buffers and messages are as large as the tables say, kernels write what the shapes say.
void require_matching_sizes(const Profile& profile) {
  const Model& model = profile.model;
  const auto require = [](const std::string& what, std::int64_t actual, const std::string& where, std::int64_t stated) {
    if (actual != stated) throw bad_input(text(what, ", ", where, " says ", stated, ": profile the model anew"));
  };
  const auto require_tensor = [&](TensorId id, const Layer& layer, const Shape& shape) {
    const Tensor& tensor = model.tensors[at(id)];
    const std::int64_t elements = tensor.kind == TensorKind::labels ? 1 : element_count(shape);
    const std::int64_t bytes = model.microbatch * elements * bytes_of(tensor.element_type);
    require(text("tensor ", tensor.name, " of layer ", layer.name, " takes ", bytes, " B"), bytes, "the model",
            tensor.bytes);
  };
  const auto made = tensors_by_producer(model);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    require(text("layer ", layer.name, " has ", parameter_bytes(layer), " B of parameters"), parameter_bytes(layer),
            "its profile", profile.costs[l].parameter_bytes);
    for (const TensorId tensor : model.needs[l].forward) require_tensor(tensor, layer, layer.input_shape);
    require_tensor(made[l].front(), layer, layer.output_shape);
  }
}

}  // namespace

void require_executable(const Plan& plan) {
  if (plan.profile.model.microbatch < 1) throw bad_input("the plan's model has no micro-batch size");
  require_chain(plan.profile.model);
  require_matching_sizes(plan.profile);
  for (const ElementType type : {plan.compute_type, plan.boundary_type, plan.master_type})
    if (type != ElementType::float32) throw bad_input("the plan asks for an element type other than float32");
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage)
    if (plan.stages[stage].owners.size() > 1)
      throw bad_input(text("stage ", stage, " has ", plan.stages[stage].owners.size(),
                           " replicas: training does not support replicated stages"));
  for (const char* name : {"step", "evaluate"})
    for (const auto& list : program(plan, name).ranks)
      for (const Instruction& instruction : list)
        if (!executable(instruction.op))
          throw bad_input(
              text("program ", name, " has a ", to_string(instruction.op), ": training does not support it"));
}

}  // namespace sluice
