#include "runtime/engine/executor.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "runtime/engine/instruction_text.h"

namespace sluice {
namespace {

/// The layers that `rank` runs in any work, each with the gradients of those that it updates.
std::map<LayerId, LayerRuntime> make_layers(const Plan& plan, Rank rank, Device& device) {
  std::map<LayerId, bool> updates;
  for (const Stage& stage : plan.stages)
    if (owns(rank, stage))
      for (const LayerId layer : stage.layers) updates[layer] |= updates_weights(stage.work);
  std::map<LayerId, LayerRuntime> layers;
  const Model& model = plan.profile.model;
  const DataFlow flow(plan);
  const std::vector<int> versions = weight_versions(plan);
  for (const auto& [layer, updated] : updates)
    layers.try_emplace(layer, device, model.layers[at(layer)], model.microbatch, updated,
                       flow.fetches(layer, rank) ? 0 : versions[at(layer)]);
  return layers;
}

/// From the first to the last micro-batch that one of the plan's programs names; at least one.
int microbatch_window(const Plan& plan) {
  int first = 0, last = 0;
  for (const Program& program : plan.programs)
    for (const auto& list : program.ranks)
      for (const Instruction& instruction : list)
        if (instruction.microbatch != kNone || counts_from_fill(plan, program)) {
          first = std::min(first, instruction.microbatch);
          last = std::max(last, instruction.microbatch);
        }
  return last - first + 1;
}

std::int64_t largest_workspace(const std::map<LayerId, LayerRuntime>& layers) {
  std::int64_t bytes = 0;
  for (const auto& [id, layer] : layers) bytes = std::max(bytes, layer.workspace_bytes());
  return bytes;
}

/// The tensor, labels apart, that each layer reads.
std::vector<TensorId> inputs_by_layer(const Model& model) {
  std::vector<TensorId> inputs(model.layers.size(), kNone);
  for (std::size_t layer = 0; layer < inputs.size(); ++layer)
    for (const TensorId tensor : model.needs[layer].forward)
      if (model.tensors[at(tensor)].kind != TensorKind::labels) inputs[layer] = tensor;
  return inputs;
}

/// By tensor: the stage that makes the gradient with respect to it, kNone if there is no such gradient.
std::vector<int> gradient_stages(const Plan& plan) {
  const Model& model = plan.profile.model;
  const DataFlow flow(plan);
  const std::vector<TensorId> inputs = inputs_by_layer(model);
  std::vector<int> stages(model.tensors.size(), kNone);
  for (LayerId layer = 0; layer < std::ssize(inputs); ++layer)
    if (has_gradient(model, inputs[at(layer)])) stages[at(inputs[at(layer)])] = flow.backward_stage(layer);
  return stages;
}

}  // namespace

Executor::Executor(const Plan& plan, Device& device, Communicator& comm, DataLoader& data, const StepClock& clock,
                   const ExecutorSettings& settings)
    : plan_(plan),
      model_(plan.profile.model),
      device_(device),
      comm_(comm),
      data_(data),
      clock_(clock),
      settings_(settings),
      made_(tensors_by_producer(model_)),
      input_of_(inputs_by_layer(model_)),
      gradient_stage_(gradient_stages(plan)),
      window_(microbatch_window(plan)),
      layers_(make_layers(plan, comm.rank(), device)),
      fetch_slots_(plan, comm.rank(), device, layers_),
      buffers_(plan, comm.rank(), device),
      workspace_(device.allocate(largest_workspace(layers_))),
      scratch_{device.allocate(scratch_bytes(plan, comm.rank())), device.allocate(scratch_bytes(plan, comm.rank()))},
      staged_images_(static_cast<std::size_t>(model_.microbatch * data.image_elements())),
      staged_labels_(static_cast<std::size_t>(model_.microbatch)),
      has_gradient_(model_.layers.size(), false),
      stream_(device.create_stream()) {
  for (const Transfer& transfer : plan.transfers) {
    const Group& group = plan.groups[at(transfer.group)];
    parts_.push_back(is_member(group, comm.rank()) ? comm.prepare(collective_of(transfer.payload), group,
                                                                  transfer.route, transfer.bytes, plan.cluster)
                                                   : nullptr);
  }
  std::int64_t per_update = plan.microbatches;
  if (asynchronous(plan)) {
    versions_.emplace(plan);
    versions_per_steady_ = versions_per_steady(plan);
    per_update = versions_->microbatches_per_update();
  }
  loss_scale_ = 1.0F / static_cast<float>(per_update * model_.microbatch);
  const std::int64_t most_tags = std::ssize(plan.transfers) * window_;
  if (most_tags > std::int64_t{comm.max_tag()} + 1)
    throw bad_input(text("the plan has ", most_tags, " transfers in a step, MPI tells ", comm.max_tag(),
                         " apart: use fewer micro-batches"));
}

void Executor::initialise() {
  for (auto& [id, layer] : layers_)
    if (layer.versions() > 0) layer.init(*stream_, settings_.seed);
}

ProgramRun Executor::run(const Program& program, const RunContext& context) {
  program_ = &program;
  counts_from_fill_ = counts_from_fill(plan_, program);
  run_ = context;
  losses_.clear();

  ProgramRun result;
  result.begin_ns = clock_.now_ns();
  timeline_ = {};
  const std::vector<Instruction>& list = program.ranks[at(comm_.rank())];
  for (index_ = 0; index_ < std::ssize(list); ++index_) {
    InstructionTime time{.start_ns = clock_.now_ns() - result.begin_ns};
    const LinkBytes before = timeline_.sent_bytes;
    name_faults([&] {
      if (const auto instruction = counted(list[at(index_)])) execute(*instruction);
      if (context.settle_each) settle(stream_->record());
    });
    time.end_ns = clock_.now_ns() - result.begin_ns;
    for (std::size_t link = 0; link < before.size(); ++link)
      time.sent_bytes[link] = timeline_.sent_bytes[link] - before[link];
    timeline_.instructions.push_back(time);
  }
  settle(stream_->record());
  result.duration_ns = clock_.now_ns() - result.begin_ns;
  timeline_.peak_memory_bytes = allocated_bytes();
  result.timeline = std::move(timeline_);
  result.losses = losses();
  if (program.name == "drain")  // all updates are done: what is the newest now is the next fill's first
    for (auto& [id, layer] : layers_) layer.restart_versions();
  return result;
}

std::optional<Instruction> Executor::counted(const Instruction& instruction) const {
  if (!counts_from_fill_) return instruction;
  return from_fill(instruction, run_.period * plan_.microbatches, run_.period * versions_per_steady_);
}

int Executor::version(const Instruction& compute, LayerId layer) const {
  return versions_ ? std::max(0, compute.version - versions_->lag(compute.stage, layer)) : 0;
}

void Executor::name_faults(const std::function<void()>& work) const {
  const auto instruction = [&] { return describe(plan_, *program_, comm_.rank(), index_, run_.step); };
  try {
    work();
  } catch (const AlarmHeard&) {
    throw;
  } catch (const TransferFault& fault) {
    throw Error(fault.exit_code(), text(instruction(), ": ", describe_transfer(fault.tag()), ": ", fault.what()));
  } catch (const Error& error) {
    throw Error(error.exit_code(), text(instruction(), ": ", error.what()));
  }
}

void Executor::execute(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::load_input:
      return load_input(instruction.microbatch);
    case Op::load_labels:
      return load_labels(instruction.microbatch);
    case Op::forward:
    case Op::recompute:
      return forward(instruction);
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
      return backward(instruction);
    case Op::multicast_start:
      return start_multicast(instruction);
    case Op::multicast_wait:
    case Op::all_reduce_wait:
      return wait(instruction);
    case Op::all_reduce_start:
      return start_all_reduce(instruction);
    case Op::optimizer_step:
      return optimizer_step(instruction);
  }
}

void Executor::load_input(int microbatch) {
  settle(images_copied_);  // the last micro-batch has left the staging memory
  data_.load_images(microbatch, staged_images_);
  images_copied_ = copy_in(TensorKind::input, staged_images_.data(), microbatch);
}

void Executor::load_labels(int microbatch) {
  settle(labels_copied_);
  data_.load_labels(microbatch, staged_labels_);
  labels_copied_ = copy_in(TensorKind::labels, staged_labels_.data(), microbatch);
}

Event Executor::copy_in(TensorKind kind, const void* data, int microbatch) {
  for (TensorId t = 0; t < std::ssize(model_.tensors); ++t)
    if (model_.tensors[at(t)].kind == kind)
      device_.copy(*stream_, slot(t, microbatch), data, model_.tensors[at(t)].bytes);
  return stream_->record();
}

void Executor::forward(const Instruction& instruction) {
  const int m = instruction.microbatch;
  for (const LayerId layer : plan_.stages[at(instruction.stage)].layers) {
    LayerMemory memory{.workspace = workspace_.data()};
    bind(memory, layer, model_.needs[at(layer)].forward, m);
    bind(memory, layer, made_[at(layer)], m);
    layers_.at(layer).forward(*stream_, memory, context(m), version(instruction, layer));
    // Who recomputes the loss layer repeats what has been counted.
    if (instruction.op == Op::forward && model_.layers[at(layer)].kind == LayerKind::softmax_cross_entropy) {
      std::vector<float>& losses = losses_[m];
      losses.resize(static_cast<std::size_t>(model_.microbatch) * 2);
      device_.copy(*stream_, losses.data(), memory.output, static_cast<std::int64_t>(losses.size() * sizeof(float)));
    }
    comm_.progress();
  }
}

void Executor::backward(const Instruction& instruction) {
  const int m = instruction.microbatch;
  const Stage& stage = plan_.stages[at(instruction.stage)];
  const bool weight_half = instruction.op != Op::backward_input;
  const bool input_half = instruction.op != Op::backward_weight;
  // Descending through the chain, what a layer reads is what the one above it wrote.
  void* above = scratch_.first.data();
  void* below = scratch_.second.data();
  for (auto id = stage.layers.rbegin(); id != stage.layers.rend(); ++id, std::swap(above, below)) {
    LayerRuntime& layer = layers_.at(*id);
    LayerMemory memory{.workspace = workspace_.data()};
    memory.output_gradient = gradient(made_[at(*id)][0], m, above);
    if (weight_half && layer.masters_bytes() > 0) {
      bind(memory, *id, model_.needs[at(*id)].backward_weight, m);
      layer.backward_weight(*stream_, memory, context(m), !has_gradient_[at(*id)]);
      has_gradient_[at(*id)] = true;
      comm_.progress();
    }
    memory.input_gradient = input_half ? gradient(input_of_[at(*id)], m, below) : nullptr;
    if (memory.input_gradient != nullptr) {
      bind(memory, *id, model_.needs[at(*id)].backward_input, m);
      layer.backward_input(*stream_, memory, context(m), version(instruction, *id));
      comm_.progress();
    }
  }
}

void* Executor::gradient(TensorId tensor, int microbatch, void* inner) const {
  const int stage = gradient_stage_[at(tensor)];
  if (stage == kNone) return nullptr;
  void* boundary = value({Payload::gradient, tensor, stage}, microbatch);
  return boundary != nullptr ? boundary : inner;
}

void Executor::optimizer_step(const Instruction& instruction) {
  for (const LayerId layer : plan_.stages[at(instruction.stage)].layers) {
    if (layers_.at(layer).masters_bytes() == 0) continue;
    layers_.at(layer).update(*stream_, settings_.sgd, instruction.version);
    has_gradient_[at(layer)] = false;
    comm_.progress();
  }
}

void Executor::bind(LayerMemory& memory, LayerId layer, std::span<const TensorId> reads, int microbatch) const {
  for (const TensorId t : reads) {
    const Tensor& tensor = model_.tensors[at(t)];
    void* data = slot(t, microbatch);
    if (tensor.kind == TensorKind::labels)
      memory.labels = data;
    else if (tensor.kind == TensorKind::auxiliary)
      memory.auxiliary = data;
    else if (tensor.producer == layer)
      memory.output = data;
    else
      memory.input = data;
  }
}

void* Executor::slot(TensorId tensor, int microbatch) const {
  return value({Payload::activation, tensor, kNone}, microbatch);
}

void* Executor::value(const ValueClass& value, int microbatch) const {
  return buffers_.find(*program_, index_, value, microbatch);
}

MicrobatchContext Executor::context(int microbatch) const {
  return {.seed = settings_.seed,
          .step = run_.step - run_.period + microbatch / plan_.microbatches,
          .first_position = microbatch % plan_.microbatches * model_.microbatch,
          .valid_samples = data_.valid_samples(microbatch),
          .loss_scale = loss_scale_,
          .training = run_.training};
}

void Executor::settle(const Event& event) { comm_.wait(event, "work of the device"); }

std::map<int, MicrobatchLoss> Executor::losses() const {
  std::map<int, MicrobatchLoss> losses;
  for (const auto& [m, samples] : losses_) {
    MicrobatchLoss& loss = losses[m];
    for (std::size_t i = 0; i < static_cast<std::size_t>(data_.valid_samples(m)); ++i) {
      loss.sum += samples[2 * i];
      loss.correct += samples[2 * i + 1] > 0.5F ? 1 : 0;
    }
  }
  return losses;
}

}  // namespace sluice
