#include "runtime/engine/value_buffers.h"

namespace sluice {

ValueBuffers::ValueBuffers(const Plan& plan, Rank rank, Device& device) {
  for (const SlotClass& slot_class : slot_classes(plan, rank))
    for (int slot = 0; slot < slot_class.slots; ++slot) {
      slots_[slot_class.value].push_back(device.allocate(slot_class.bytes));
      bytes_ += slot_class.bytes;
    }
  for (const Program& program : plan.programs) {
    std::map<ValueUse, int>& slot_of = slot_of_[program.name];
    for (const Lifetime& lifetime : plan_buffers(plan, program, rank).lifetimes)
      slot_of[{lifetime.value, lifetime.microbatch}] = lifetime.slot;
  }
}

void* ValueBuffers::find(const Program& program, const ValueClass& value, int microbatch) const {
  const std::map<ValueUse, int>& slot_of = slot_of_.at(program.name);
  const auto slot = slot_of.find({value, microbatch});
  return slot == slot_of.end() ? nullptr : slots_.at(value)[static_cast<std::size_t>(slot->second)].data();
}

std::span<const Buffer> ValueBuffers::slots(const ValueClass& value) const {
  const auto found = slots_.find(value);
  return found == slots_.end() ? std::span<const Buffer>{} : found->second;
}

}  // namespace sluice
