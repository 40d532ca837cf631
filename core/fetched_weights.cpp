#include "core/fetched_weights.h"

#include <algorithm>

#include "core/index.h"
#include "core/interval_colouring.h"

namespace sluice {
namespace {

/// The stage whose fetched weights the instruction touches; kNone if it touches none.
int touched_stage(const Plan& plan, const DataFlow& flow, const Instruction& instruction, Rank rank) {
  if (instruction.op == Op::forward && plan.stages[at(instruction.stage)].fetches_weights) return instruction.stage;
  if (instruction.op != Op::multicast_start && instruction.op != Op::multicast_wait) return kNone;
  const Transfer& transfer = plan.transfers[at(instruction.transfer)];
  const bool fetched = transfer.payload == Payload::weights && flow.fetches(transfer.layer, rank);
  return fetched ? flow.forward_stage(transfer.layer) : kNone;
}

std::vector<FetchLifetime> fetch_lifetimes(const Plan& plan, const DataFlow& flow, const Program& program, Rank rank) {
  std::vector<FetchLifetime> lifetimes;
  const std::vector<Instruction>& list = program.ranks[at(rank)];
  for (int i = 0; i < std::ssize(list); ++i) {
    const int stage = touched_stage(plan, flow, list[at(i)], rank);
    if (stage == kNone) continue;
    const auto known = std::find_if(lifetimes.begin(), lifetimes.end(),
                                    [&](const FetchLifetime& lifetime) { return lifetime.stage == stage; });
    if (known != lifetimes.end())
      known->last = i;
    else if (list[at(i)].op == Op::multicast_start)
      lifetimes.push_back({.stage = stage, .first = i, .last = i});
  }
  std::vector<FetchLifetime*> by_first;
  for (FetchLifetime& lifetime : lifetimes) by_first.push_back(&lifetime);
  colour(by_first);
  return lifetimes;
}

}  // namespace

std::vector<FetchLifetime> fetch_lifetimes(const Plan& plan, const Program& program, Rank rank) {
  return fetch_lifetimes(plan, DataFlow(plan), program, rank);
}

std::vector<int> fetching_stages(const Plan& plan, const DataFlow& flow, Rank rank) {
  std::vector<int> stages;
  for (int s = 0; s < std::ssize(plan.stages); ++s) {
    const std::vector<Rank>& owners = plan.stages[at(s)].owners;
    const auto replica = std::find(owners.begin(), owners.end(), rank) - owners.begin();
    const std::vector<LayerId> layers = fetched_layers(plan, flow, s, rank);
    if (replica < plan.microbatches && std::any_of(layers.begin(), layers.end(), [&](LayerId layer) {
          return plan.profile.costs[at(layer)].parameter_bytes > 0;
        }))
      stages.push_back(s);
  }
  std::sort(stages.begin(), stages.end(),
            [&](int a, int b) { return plan.stages[at(a)].index < plan.stages[at(b)].index; });
  return stages;
}

std::vector<LayerId> fetched_layers(const Plan& plan, const DataFlow& flow, int stage, Rank rank) {
  std::vector<LayerId> layers;
  for (const LayerId layer : plan.stages[at(stage)].layers)
    if (flow.forward_stage(layer) == stage && flow.fetches(layer, rank)) layers.push_back(layer);
  return layers;
}

std::vector<std::int64_t> fetch_slot_bytes(const Plan& plan, Rank rank,
                                           const std::function<std::int64_t(LayerId)>& bytes_of) {
  std::vector<std::int64_t> largest;
  const auto fetches = [](const Stage& stage) { return stage.fetches_weights; };
  if (std::none_of(plan.stages.begin(), plan.stages.end(), fetches)) return largest;
  const DataFlow flow(plan);
  for (const Program& program : plan.programs)
    for (const FetchLifetime& lifetime : fetch_lifetimes(plan, flow, program, rank)) {
      std::int64_t bytes = 0;
      for (const LayerId layer : fetched_layers(plan, flow, lifetime.stage, rank)) bytes += bytes_of(layer);
      if (lifetime.slot >= std::ssize(largest)) largest.resize(at(lifetime.slot) + 1);
      largest[at(lifetime.slot)] = std::max(largest[at(lifetime.slot)], bytes);
    }
  return largest;
}

std::vector<std::int64_t> fetch_slot_bytes(const Plan& plan, Rank rank) {
  return fetch_slot_bytes(plan, rank, [&](LayerId layer) {
    return plan.profile.costs[at(layer)].parameter_bytes + plan.profile.costs[at(layer)].packed_bytes;
  });
}

}  // namespace sluice
