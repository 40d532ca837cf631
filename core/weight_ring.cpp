#include "core/weight_ring.h"

#include <algorithm>

#include "core/index.h"
#include "core/text.h"

namespace sluice {

WeightRing::WeightRing(const Plan& plan) : plan_(plan), versions_(plan) {
  now_.newest.resize(plan.profile.model.layers.size(), 0);
  now_.updates.resize(plan.stages.size(), 0);
}

std::string WeightRing::use(const Instruction& compute) const {
  for (const LayerId layer : plan_.stages[at(compute.stage)].layers) {
    if (!has_parameters(layer)) continue;
    const int lag = versions_.lag(compute.stage, layer);
    const int version = std::max(0, compute.version - lag);
    const int due = std::max(0, versions_.version(compute.stage, compute.microbatch) - lag);
    if (version != due) return text("uses ", weights(layer, version), ", but the micro-batch takes version ", due);
    if (std::string reason = missing(layer, version); !reason.empty()) return text("uses ", reason);
  }
  return {};
}

std::string WeightRing::update(const Instruction& step, int backwards) {
  int& updates = now_.updates[at(step.stage)];
  if (step.version != updates + 1) return text("makes version ", step.version, " from version ", updates);
  if (step.version * versions_.microbatches_per_update() != backwards)
    return text("makes version ", step.version, " after ", backwards, " backwards");
  if (step.microbatch != backwards - 1)
    return text("names micro-batch ", step.microbatch, ", but the last backward was that of ", backwards - 1);
  ++updates;
  for (const LayerId layer : plan_.stages[at(step.stage)].layers)
    if (has_parameters(layer))
      if (std::string reason = replace(layer, step.version); !reason.empty()) return reason;
  return {};
}

std::string WeightRing::start(const Instruction& transfer, LayerId layer, bool sends) {
  if ((transfer.microbatch + 1) != transfer.version * versions_.microbatches_per_update())
    return text("moves ", weights(layer, transfer.version), " after micro-batch ", transfer.microbatch);
  travelling_[{transfer.transfer, transfer.microbatch}] = transfer.version;
  if (!sends) {
    std::string reason = replace(layer, transfer.version);
    now_.receiving.emplace(layer, transfer.version);
    return reason;
  }
  if (std::string reason = missing(layer, transfer.version); !reason.empty()) return text("sends ", reason);
  now_.sending.emplace(layer, transfer.version);
  return {};
}

std::string WeightRing::wait(const Instruction& transfer, LayerId layer, bool sends) {
  const int version = travelling_[{transfer.transfer, transfer.microbatch}];
  if (transfer.version != version)
    return text("waits for ", weights(layer, transfer.version), ", but started version ", version);
  if (sends)
    now_.sending.erase(now_.sending.find({layer, version}));
  else
    now_.receiving.erase({layer, version});
  return {};
}

std::string WeightRing::at_end(Rank rank, int microbatches) const {
  for (const Stage& stage : plan_.stages)
    for (const LayerId layer : stage.layers) {
      if (!owns(rank, stage) || !has_parameters(layer)) continue;
      const int last = microbatches / versions_.microbatches_per_update();
      if (now_.newest[at(layer)] != last) return text("ends without ", weights(layer, last));
    }
  for (int s = 0; s < std::ssize(plan_.stages); ++s)
    if (const Stage& stage = plan_.stages[at(s)]; owns(rank, stage) && updates_weights(stage.work))
      if (now_.updates[at(s)] * versions_.microbatches_per_update() != microbatches)
        return text("ends after ", now_.updates[at(s)], " updates of ", to_string(stage.work), " stage ", stage.index);
  return {};
}

WeightRing::State WeightRing::state(Rank rank, int version_base) const {
  State state{.newest = now_.newest, .updates = now_.updates, .receiving = {}, .sending = {}};
  std::set<LayerId> held;
  for (int s = 0; s < std::ssize(plan_.stages); ++s) {
    const Stage& stage = plan_.stages[at(s)];
    if (!owns(rank, stage)) continue;
    held.insert(stage.layers.begin(), stage.layers.end());
    if (updates_weights(stage.work)) state.updates[at(s)] -= version_base;
  }
  for (const LayerId layer : held)
    if (has_parameters(layer)) state.newest[at(layer)] -= version_base;
  for (const auto& [layer, version] : now_.receiving) state.receiving.emplace(layer, version - version_base);
  for (const auto& [layer, version] : now_.sending) state.sending.emplace(layer, version - version_base);
  return state;
}

std::string WeightRing::weights(LayerId layer, int version) const {
  return text("version ", version, " of the weights of layer ", plan_.profile.model.layers[at(layer)].name);
}

std::string WeightRing::missing(LayerId layer, int version) const {
  const int newest = now_.newest[at(layer)];
  if (version > newest) return text(weights(layer, version), ", which is not there yet");
  if (version <= newest - versions_.kept(layer)) return text(weights(layer, version), ", which has been replaced");
  if (now_.receiving.contains({layer, version})) return text(weights(layer, version), " while it is being received");
  return {};
}

/// By what an optimizer step makes or a receive brings.
std::string WeightRing::replace(LayerId layer, int version) {
  int& newest = now_.newest[at(layer)];
  if (version != newest + 1) return text("brings ", weights(layer, version), " after version ", newest);
  const std::pair oldest(layer, version - versions_.kept(layer));
  if (now_.sending.contains(oldest)) return text("replaces ", weights(layer, oldest.second), " while it is being sent");
  if (now_.receiving.contains(oldest))
    return text("replaces ", weights(layer, oldest.second), " while it is being received");
  newest = version;
  return {};
}

}  // namespace sluice
