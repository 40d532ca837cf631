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

/// Its weights are here between two steps, and not only fetched.
bool keeps(const LayerRuntime& layer) { return layer.versions() > 0 && !layer.layer().parameters.empty(); }

}  // namespace

std::vector<LayerId> saved_layers(const Plan& plan, Rank rank) {
  std::vector<LayerId> saved;
  for (const Stage& stage : plan.stages)
    if (updates_weights(stage.work) && stage.owners.front() == rank)
      for (const LayerId layer : stage.layers)
        if (!plan.profile.model.layers[at(layer)].parameters.empty()) saved.push_back(layer);
  std::sort(saved.begin(), saved.end());
  return saved;
}

LayerStates Executor::state() {
  LayerStates states;
  for (const LayerId id : saved_layers(plan_, comm_.rank())) {
    const LayerRuntime& layer = layers_.at(id);
    states[layer.layer().name] = cut(layer.layer(), layer.save(*stream_), layer.save_momentum(*stream_));
  }
  return states;
}

std::vector<std::string> Executor::kept_layers() const {
  std::vector<std::string> names;
  for (const auto& [id, layer] : layers_)
    if (keeps(layer)) names.push_back(layer.layer().name);
  return names;
}

void Executor::load(const LayerStates& states) {
  require_fitting(states, model_, kept_layers());
  for (auto& [id, layer] : layers_) {
    if (!keeps(layer)) continue;
    const auto& parameters = states.at(layer.layer().name);
    layer.load(*stream_, joined(layer.layer(), parameters, &ParameterState::weights));
    const std::vector<float> momentum = joined(layer.layer(), parameters, &ParameterState::momentum);
    if (layer.momentum() != nullptr && !momentum.empty()) layer.load_momentum(*stream_, momentum);
  }
}

}  // namespace sluice
