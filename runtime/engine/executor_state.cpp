// What an executor's training has come to, taken out and put in between two runs.
#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/state_check.h"

namespace sluice {
namespace {

/// The values of all parameters one behind the other, cut into them.
std::map<std::string, ParameterState> cut(const Layer& layer, const std::vector<float>& weights,
                                          const std::vector<float>& momentum) {
  std::map<std::string, ParameterState> parameters;
  std::int64_t begin = 0;
  for (const Parameter& parameter : layer.parameters) {
    const std::int64_t end = begin + element_count(parameter.shape);
    parameters[parameter.name] = {.shape = parameter.shape,
                                  .weights = {weights.begin() + begin, weights.begin() + end},
                                  .momentum = {momentum.begin() + begin, momentum.begin() + end}};
    begin = end;
  }
  return parameters;
}

std::vector<float> joined(const Layer& layer, const std::map<std::string, ParameterState>& parameters,
                          std::vector<float> ParameterState::*values) {
  std::vector<float> all;
  for (const Parameter& parameter : layer.parameters) {
    const std::vector<float>& part = parameters.at(parameter.name).*values;
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

bool saves(const Plan& plan, Rank rank, LayerId layer) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return updates_weights(stage.work) && stage.owners.front() == rank &&
           std::binary_search(stage.layers.begin(), stage.layers.end(), layer);
  });
}

LayerStates Executor::state() {
  LayerStates states;
  for (auto& [id, layer] : layers_)
    if (!layer.layer().parameters.empty() && saves(plan_, comm_.rank(), id))
      states[layer.layer().name] = cut(layer.layer(), layer.save(*stream_), layer.save_momentum(*stream_));
  return states;
}

std::vector<std::string> Executor::kept_layers() const {
  std::vector<std::string> names;
  for (const auto& [id, layer] : layers_)
    if (layer.versions() > 0 && !layer.layer().parameters.empty()) names.push_back(layer.layer().name);
  return names;
}

void Executor::load(const LayerStates& states) {
  const std::vector<std::string> kept = kept_layers();
  require_fitting(states, model_, kept);
  for (auto& [id, layer] : layers_) {
    if (std::find(kept.begin(), kept.end(), layer.layer().name) == kept.end()) continue;
    const auto& parameters = states.at(layer.layer().name);
    layer.load(*stream_, joined(layer.layer(), parameters, &ParameterState::weights));
    const std::vector<float> momentum = joined(layer.layer(), parameters, &ParameterState::momentum);
    if (layer.momentum() != nullptr && !momentum.empty()) layer.load_momentum(*stream_, momentum);
  }
}

}  // namespace sluice
