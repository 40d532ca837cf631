#include "runtime/engine/state_check.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Names of layers and parameters; a shape's text beside those of which it counts.
using Inventory = std::map<std::string, std::string>;

void require_equal(const Inventory& found, const Inventory& expected) {
  std::string differences;
  const auto add = [&](const std::string& difference) {
    differences += (differences.empty() ? "" : ", ") + difference;
  };
  for (const auto& [name, shape] : expected)
    if (!found.contains(name))
      add(name + " is missing");
    else if (found.at(name) != shape)
      add(text(name, " is ", found.at(name), ", expected ", shape));
  for (const auto& [name, shape] : found)
    if (!expected.contains(name)) add(name + " is not in the model");
  if (!differences.empty()) throw bad_input(differences);
}

bool contains(std::span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void require_layers_of(const Model& model, std::span<const std::string> layers) {
  Inventory found, expected;
  for (const std::string& layer : layers) found["layer " + layer];
  for (const Layer& layer : model.layers)
    if (!layer.parameters.empty()) expected["layer " + layer.name];
  require_equal(found, expected);
}

void require_fitting(const LayerStates& states, const Model& model, std::span<const std::string> wanted) {
  Inventory found, expected;
  for (const auto& [layer, parameters] : states)
    if (contains(wanted, layer))
      for (const auto& [name, parameter] : parameters)
        found[layer + "/" + name] = text(shape_text(parameter.shape), " weights");
  for (const Layer& layer : model.layers)
    if (contains(wanted, layer.name))
      for (const Parameter& parameter : layer.parameters)
        expected[layer.name + "/" + parameter.name] = text(shape_text(parameter.shape), " weights");
  require_equal(found, expected);
}

void require_fitting(const LayerStates& states, const Model& model) {
  std::vector<std::string> all;
  for (const Layer& layer : model.layers) all.push_back(layer.name);
  for (const auto& [layer, parameters] : states) all.push_back(layer);
  require_fitting(states, model, all);
}

}  // namespace sluice
