#include "runtime/engine/value_buffers.h"

#include <algorithm>
#include <iterator>

#include "core/asynchronous.h"
#include "core/index.h"

namespace sluice {

ValueBuffers::ValueBuffers(const Plan& plan, Rank rank, Device& device) {
  for (const SlotClass& slot_class : slot_classes(plan, rank))
    for (int slot = 0; slot < slot_class.slots; ++slot) {
      slots_[slot_class.value].push_back(device.allocate(slot_class.bytes));
      bytes_ += slot_class.bytes;
    }
  for (const Program& program : plan.programs) {
    if (counts_from_fill(plan, program)) continue;
    std::map<ValueUse, std::vector<Place>>& places = places_[program.name];
    for (const Lifetime& lifetime : plan_buffers(plan, program, rank).lifetimes)
      places[{lifetime.value, lifetime.microbatch}].push_back({lifetime.first, lifetime.slot});
  }
}

void* ValueBuffers::find(const Program& program, int index, const ValueClass& value, int microbatch) const {
  const auto places = places_.find(program.name);
  if (places == places_.end()) {
    const std::span<const Buffer> ring = slots(value);
    return ring.empty() ? nullptr : ring[at(microbatch) % ring.size()].data();
  }
  const auto found = places->second.find({value, microbatch});
  if (found == places->second.end()) return nullptr;
  const auto next = std::find_if(found->second.begin(), found->second.end(),
                                 [index](const Place& place) { return place.first > index; });
  return next == found->second.begin() ? nullptr : slots_.at(value)[at(std::prev(next)->slot)].data();
}

std::span<const Buffer> ValueBuffers::slots(const ValueClass& value) const {
  const auto found = slots_.find(value);
  return found == slots_.end() ? std::span<const Buffer>{} : found->second;
}

}  // namespace sluice
