#include "runtime/engine/fetch_slots.h"

#include <cstddef>

#include "core/fetched_weights.h"
#include "core/index.h"

namespace sluice {

FetchSlots::FetchSlots(const Plan& plan, Rank rank, Device& device, const std::map<LayerId, LayerRuntime>& layers) {
  const auto bytes_of = [&](LayerId layer) {
    return layers.at(layer).masters_bytes() + layers.at(layer).packed_bytes();
  };
  for (const std::int64_t bytes : fetch_slot_bytes(plan, rank, bytes_of)) {
    slots_.push_back(device.allocate(bytes));
    bytes_ += bytes;
  }
  if (slots_.empty()) return;
  const DataFlow flow(plan);
  for (const Program& program : plan.programs)
    for (const FetchLifetime& lifetime : fetch_lifetimes(plan, program, rank)) {
      auto* next = static_cast<std::byte*>(slots_[at(lifetime.slot)].data());
      const std::vector<LayerId> fetched = fetched_layers(plan, flow, lifetime.stage, rank);
      for (const LayerId layer : fetched) {
        places_[{program.name, layer}].packed = next;
        next += layers.at(layer).packed_bytes();
      }
      for (const LayerId layer : fetched) {
        places_[{program.name, layer}].masters = next;
        next += layers.at(layer).masters_bytes();
      }
    }
}

FetchSlots::Place FetchSlots::find(const Program& program, LayerId layer) const {
  const auto place = places_.find({program.name, layer});
  return place == places_.end() ? Place{} : place->second;
}

}  // namespace sluice
