#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/storage/checkpoint_files.h"
#include "core/storage/reader.h"
#include "core/storage/writer.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr const char* kPlace = "the image of a checkpoint";

/// Of headers and attributes, not of values.
constexpr std::int64_t kBytesPerFile = 1 << 16, kBytesPerDataset = 1 << 11;

template <typename Visit>
void for_each_array(const LayerStates& states, Visit visit) {
  for (const auto& [layer, parameters] : states)
    for (const auto& [parameter, state] : parameters)
      for (const auto* values : {&state.weights, &state.momentum}) visit(text(layer, "/", parameter), state, *values);
}

void validate(const LayerStates& states) {
  for (const auto& [layer, parameters] : states) {
    require_dataset_name(kPlace, layer);
    for (const auto& [parameter, state] : parameters) require_dataset_name(kPlace, parameter);
  }
  for_each_array(states, [](const std::string& name, const ParameterState& state, const std::vector<float>& values) {
    if (element_count(state.shape) != std::ssize(values))
      throw bad_input(
          text(kPlace, ": ", values.size(), " values of ", name, ", but its shape has ", element_count(state.shape)));
  });
}

std::int64_t expected_bytes(const LayerStates& states) {
  std::int64_t bytes = kBytesPerFile;
  for_each_array(states, [&](const std::string&, const ParameterState&, const std::vector<float>& values) {
    bytes += kBytesPerDataset + std::ssize(values) * static_cast<std::int64_t>(sizeof(float));
  });
  return bytes;
}

/// Contiguous and without a filter: making the image is to cost little more than copying it. The checksum of the whole
/// file is in the manifest.
void write_arrays(const GroupWriter& group, const LayerStates& states, std::vector<float> ParameterState::*values,
                  const std::string& description) {
  for (const auto& [layer, parameters] : states) {
    const GroupWriter inner = group.group(layer);
    for (const auto& [parameter, state] : parameters)
      inner.array<float>(parameter, state.*values, state.shape, {"1", description}, Layout::contiguous);
  }
}

std::map<std::string, ParameterState> read_layer(const GroupReader& weights, const GroupReader& momentum) {
  std::map<std::string, ParameterState> parameters;
  for (const std::string& name : weights.names()) {
    ParameterState& state = parameters[name];
    Shape shape;
    state.weights = weights.array<float>(name, state.shape, Values::any);
    state.momentum = momentum.array<float>(name, shape, Values::any);
    if (shape != state.shape) momentum.refuse(name, "has another shape than the weights of this name");
  }
  return parameters;
}

}  // namespace

Weights weights_of(LayerStates states) {
  Weights weights;
  for (auto& [layer, parameters] : states)
    for (auto& [parameter, state] : parameters)
      weights[layer][parameter] = {std::move(state.shape), std::move(state.weights)};
  return weights;
}

std::vector<std::byte> state_image(const LayerStates& states) {
  validate(states);
  ImageWriter file(kPlace, kCheckpointStateSchema, expected_bytes(states));
  const GroupWriter root = file.root();
  write_arrays(root.group("weights"), states, &ParameterState::weights, "logical order, row-major");
  write_arrays(root.group("momentum"), states, &ParameterState::momentum, "of the weights' updates, in their order");
  return file.finish();
}

LayerStates read_state(const std::string& path, std::span<const std::string> wanted) {
  const FileReader file(path, kCheckpointStateSchema);
  const GroupReader weights = file.root().group("weights"), momentum = file.root().group("momentum");
  LayerStates states;
  for (const std::string& layer : weights.names())
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), layer) != wanted.end())
      states[layer] = read_layer(weights.group(layer), momentum.group(layer));
  return states;
}

}  // namespace sluice
