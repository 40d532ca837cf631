#include "core/liveness.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/asynchronous.h"
#include "core/fetched_weights.h"
#include "core/index.h"
#include "core/interval_colouring.h"

namespace sluice {
namespace {

std::vector<ValueUse> of_microbatch(const std::vector<ValueClass>& values, int microbatch) {
  std::vector<ValueUse> uses;
  uses.reserve(values.size());
  for (const ValueClass& value : values) uses.push_back({value, microbatch});
  return uses;
}

/// True for the stages that gradients travel between.
bool hands_gradients(Work work) { return work == Work::backward || work == Work::backward_input; }

ValueClass activation(TensorId tensor) { return {Payload::activation, tensor, kNone}; }
ValueClass gradient(TensorId tensor, int stage) { return {Payload::gradient, tensor, stage}; }

/// Gives each lifetime the slot that its micro-batch has in a ring, with as many slots as no two need at once.
int ring(const std::vector<Lifetime*>& by_first) {
  std::map<int, int> alive;  // micro-batch: last use
  int slots = 0;
  for (const Lifetime* lifetime : by_first) {
    std::erase_if(alive, [&](const auto& other) { return other.second < lifetime->first; });
    alive[lifetime->microbatch] = lifetime->last;
    slots = std::max(slots, alive.rbegin()->first - alive.begin()->first + 1);
  }
  for (Lifetime* lifetime : by_first) lifetime->slot = lifetime->microbatch % slots;
  return slots;
}

std::vector<Lifetime> lifetimes_of(const DataFlow& flow, const std::vector<Instruction>& list, Rank rank) {
  std::vector<Lifetime> lifetimes;
  std::map<ValueUse, std::size_t> index_of;
  std::map<std::pair<int, int>, std::size_t> travelling;  // transfer, micro-batch: what its wait is about
  const auto extend = [&](std::size_t index, int last) { lifetimes[index].last = last; };
  for (int i = 0; i < std::ssize(list); ++i) {
    const Instruction& instruction = list[at(i)];
    const auto call = std::pair(instruction.transfer, instruction.microbatch);
    if (instruction.op == Op::multicast_wait) {
      if (const auto found = travelling.find(call); found != travelling.end()) extend(found->second, i);
      continue;
    }
    const Access access = flow.access(instruction, rank);
    for (const ValueUse& use : access.writes) {
      const auto [known, is_new] = index_of.try_emplace(use, lifetimes.size());
      if (!is_new && instruction.op != Op::recompute) continue;
      known->second = lifetimes.size();
      lifetimes.push_back({.value = use.value, .microbatch = use.microbatch, .first = i, .last = i});
    }
    for (const ValueUse& use : access.reads)
      if (const auto found = index_of.find(use); found != index_of.end()) extend(found->second, i);
    if (instruction.op == Op::multicast_start)
      for (const auto* uses : {&access.reads, &access.writes})
        for (const ValueUse& use : *uses)
          if (const auto found = index_of.find(use); found != index_of.end()) travelling[call] = found->second;
  }
  return lifetimes;
}

/// @param assign  gives the lifetimes of a class their slots and returns how many there are
BufferPlan plan_buffers(const Plan& plan, const DataFlow& flow, const std::vector<Instruction>& list, Rank rank,
                        int (*assign)(const std::vector<Lifetime*>& by_first)) {
  BufferPlan buffers;
  buffers.lifetimes = lifetimes_of(flow, list, rank);
  std::map<ValueClass, std::vector<Lifetime*>> by_class;
  for (Lifetime& lifetime : buffers.lifetimes) by_class[lifetime.value].push_back(&lifetime);
  for (const auto& [value, members] : by_class)
    buffers.classes.push_back({value, plan.profile.model.tensors[at(value.tensor)].bytes, assign(members)});
  return buffers;
}

}  // namespace

DataFlow::DataFlow(const Plan& plan)
    : plan_(&plan),
      forward_stage_(plan.profile.model.layers.size(), kNone),
      backward_stage_(plan.profile.model.layers.size(), kNone),
      update_stage_(plan.profile.model.layers.size(), kNone),
      recompute_stage_(plan.stages.size(), kNone),
      made_(tensors_by_producer(plan.profile.model)),
      consumers_(consumers_by_tensor(plan.profile.model)),
      input_(load_access(TensorKind::input)),
      labels_(load_access(TensorKind::labels)) {
  const int stages = static_cast<int>(plan.stages.size());
  std::map<int, int> recompute_by_index;
  for (int s = 0; s < stages; ++s) {
    const Stage& stage = plan.stages[at(s)];
    if (stage.work == Work::recompute) recompute_by_index[stage.index] = s;
    for (const LayerId layer : stage.layers) {
      if (stage.work == Work::forward) forward_stage_[at(layer)] = s;
      if (hands_gradients(stage.work)) backward_stage_[at(layer)] = s;
      if (updates_weights(stage.work)) update_stage_[at(layer)] = s;
    }
  }
  for (int s = 0; s < stages; ++s)
    if (const Stage& stage = plan.stages[at(s)]; hands_gradients(stage.work))
      if (const auto found = recompute_by_index.find(stage.index); found != recompute_by_index.end())
        recompute_stage_[at(s)] = found->second;
  for (int s = 0; s < stages; ++s) stages_.push_back(stage_access(s));
}

bool DataFlow::fetches(LayerId layer, Rank rank) const {
  const Stage& stage = plan_->stages[at(forward_stage(layer))];
  return stage.fetches_weights && owns(rank, stage) && !owns(rank, plan_->stages[at(update_stage(layer))]);
}

bool DataFlow::is_recomputed(int stage, LayerId producer) const {
  const int recompute = recompute_stage_[at(stage)];
  if (recompute == kNone) return false;
  const std::vector<LayerId>& layers = plan_->stages[at(recompute)].layers;
  return std::binary_search(layers.begin(), layers.end(), producer);
}

DataFlow::StageAccess DataFlow::stage_access(int index) const {
  const Stage& stage = plan_->stages[at(index)];
  const bool forward = stage.work == Work::forward || stage.work == Work::recompute;
  return forward ? forward_access(stage) : backward_access(index);
}

/// Tensors that the layer reads and whose gradient it shares in.
std::vector<TensorId> DataFlow::differentiable_inputs(LayerId layer) const {
  std::vector<TensorId> tensors;
  for (const TensorId tensor : plan_->profile.model.needs[at(layer)].forward)
    if (plan_->profile.model.tensors[at(tensor)].kind == TensorKind::output) tensors.push_back(tensor);
  return tensors;
}

DataFlow::StageAccess DataFlow::load_access(TensorKind kind) const {
  StageAccess access;
  const std::vector<Tensor>& tensors = plan_->profile.model.tensors;
  for (TensorId t = 0; t < std::ssize(tensors); ++t)
    if (tensors[at(t)].kind == kind) access.writes.push_back(activation(t));
  return access;
}

DataFlow::StageAccess DataFlow::forward_access(const Stage& stage) const {
  StageAccess access;
  std::set<TensorId> known;
  for (const LayerId layer : stage.layers) {
    for (const TensorId tensor : plan_->profile.model.needs[at(layer)].forward)
      if (known.insert(tensor).second) access.reads.push_back(activation(tensor));
    for (const TensorId tensor : made_[at(layer)]) {
      known.insert(tensor);
      access.writes.push_back(activation(tensor));
    }
  }
  return access;
}

DataFlow::StageAccess DataFlow::backward_access(int index) const {
  const Model& model = plan_->profile.model;
  const Work work = plan_->stages[at(index)].work;
  StageAccess access;
  std::set<TensorId> needed, shared;
  std::set<ValueClass> incoming;
  for (const LayerId layer : plan_->stages[at(index)].layers) {
    const LayerNeeds& needs = model.needs[at(layer)];
    if (work != Work::backward_weight) needed.insert(needs.backward_input.begin(), needs.backward_input.end());
    if (work != Work::backward_input) needed.insert(needs.backward_weight.begin(), needs.backward_weight.end());
    if (work != Work::backward_weight)
      for (const TensorId tensor : differentiable_inputs(layer))
        if (work == Work::backward_input || backward_stage(model.tensors[at(tensor)].producer) != index)
          shared.insert(tensor);
    for (const TensorId tensor : made_[at(layer)])
      for (const int maker : gradient_makers(tensor))
        if (maker != index) incoming.insert(gradient(tensor, maker));
  }
  for (const TensorId tensor : needed) access.reads.push_back(activation(tensor));
  access.reads.insert(access.reads.end(), incoming.begin(), incoming.end());
  for (const TensorId tensor : shared) access.writes.push_back(gradient(tensor, index));
  return access;
}

/// Stages that make a partial sum of the tensor's gradient.
std::set<int> DataFlow::gradient_makers(TensorId tensor) const {
  std::set<int> makers;
  if (plan_->profile.model.tensors[at(tensor)].kind != TensorKind::output) return makers;
  for (const LayerId consumer : consumers_[at(tensor)]) makers.insert(backward_stage(consumer));
  return makers;
}

Access DataFlow::access(const Instruction& instruction, Rank rank) const {
  const auto whole = [&](const StageAccess& stage) {
    return Access{of_microbatch(stage.reads, instruction.microbatch),
                  of_microbatch(stage.writes, instruction.microbatch)};
  };
  if (instruction.op == Op::load_input) return whole(input_);
  if (instruction.op == Op::load_labels) return whole(labels_);
  if (is_compute(instruction.op)) return whole(stages_[at(instruction.stage)]);
  if (instruction.op != Op::multicast_start && instruction.op != Op::multicast_wait) return {};

  const Transfer& transfer = plan_->transfers[at(instruction.transfer)];
  if (of_layer(transfer.payload)) return {};
  const ValueUse use{{transfer.payload, transfer.tensor, transfer.stage}, instruction.microbatch};
  const bool receives = plan_->groups[at(transfer.group)].root != rank;
  if (receives && instruction.op == Op::multicast_start) return {.reads = {}, .writes = {use}};
  return {.reads = {use}, .writes = {}};
}

BufferPlan plan_buffers(const Plan& plan, const Program& program, Rank rank) {
  const bool rings = counts_from_fill(plan, program);
  return plan_buffers(plan, DataFlow(plan), program.ranks[at(rank)], rank, rings ? ring : colour<Lifetime>);
}

namespace {

std::vector<SlotClass> slot_classes(const Plan& plan, const DataFlow& flow, Rank rank) {
  std::map<ValueClass, SlotClass> largest;
  const auto require = [&](const BufferPlan& buffers) {
    for (const SlotClass& slots : buffers.classes) {
      SlotClass& kept = largest.try_emplace(slots.value, slots).first->second;
      kept.slots = std::max(kept.slots, slots.slots);
    }
  };
  if (asynchronous(plan)) {
    require(plan_buffers(plan, flow, unrolled(plan, steadies_to_settle(plan) + 1, rank), rank, ring));
    require(plan_buffers(plan, flow, program(plan, "evaluate").ranks[at(rank)], rank, colour));
  } else {
    for (const Program& program : plan.programs)
      require(plan_buffers(plan, flow, program.ranks[at(rank)], rank, colour));
  }
  std::vector<SlotClass> classes;
  for (const auto& [value, slots] : largest) classes.push_back(slots);
  return classes;
}

}  // namespace

std::vector<SlotClass> slot_classes(const Plan& plan, Rank rank) { return slot_classes(plan, DataFlow(plan), rank); }

std::int64_t scratch_bytes(const Plan& plan, Rank rank) {
  const Model& model = plan.profile.model;
  std::int64_t largest = 0;
  for (const Stage& stage : plan.stages) {
    if (!hands_gradients(stage.work) || !owns(rank, stage)) continue;
    const auto inside = [&](LayerId layer) {
      return std::binary_search(stage.layers.begin(), stage.layers.end(), layer);
    };
    for (const LayerId layer : stage.layers)
      for (const TensorId tensor : model.needs[at(layer)].forward)
        if (model.tensors[at(tensor)].kind == TensorKind::output && inside(model.tensors[at(tensor)].producer))
          largest = std::max(largest, model.tensors[at(tensor)].bytes);
  }
  return largest;
}

std::vector<int> weight_versions(const Plan& plan) {
  std::vector<int> kept(plan.profile.model.layers.size(), 1);
  if (!asynchronous(plan)) return kept;
  const WeightVersions versions(plan);
  for (LayerId layer = 0; layer < std::ssize(kept); ++layer) kept[at(layer)] = versions.kept(layer);
  return kept;
}

MemoryUse memory_use(const Plan& plan, Rank rank) {
  MemoryUse use;
  const DataFlow flow(plan);
  std::set<LayerId> run, updated;
  for (const Stage& stage : plan.stages) {
    if (!owns(rank, stage)) continue;
    run.insert(stage.layers.begin(), stage.layers.end());
    if (updates_weights(stage.work)) updated.insert(stage.layers.begin(), stage.layers.end());
  }
  const std::vector<int> versions = weight_versions(plan);
  for (const LayerId layer : run) {
    const LayerCost& cost = plan.profile.costs[at(layer)];
    if (!flow.fetches(layer, rank)) use.parameters += versions[at(layer)] * (cost.parameter_bytes + cost.packed_bytes);
    use.workspace = std::max(use.workspace, cost.workspace_bytes);
  }
  for (const LayerId layer : updated) use.gradients += plan.profile.costs[at(layer)].parameter_bytes;
  use.optimizer_state = use.gradients;
  for (const std::int64_t bytes : fetch_slot_bytes(plan, rank)) use.fetched_weights += bytes;
  use.workspace += 2 * scratch_bytes(plan, rank);
  for (const SlotClass& slots : slot_classes(plan, flow, rank)) use.buffers += slots.slots * slots.bytes;
  return use;
}

}  // namespace sluice
