#include "core/storage/weights_file.h"

#include "core/error.h"
#include "core/storage/reader.h"
#include "core/text.h"

namespace sluice {
namespace {

void validate(const std::string& path, const Weights& weights) {
  for (const auto& [layer, parameters] : weights)
    for (const auto& [parameter, array] : parameters) {
      for (const std::string& name : {layer, parameter}) require_dataset_name(path, name);
      if (element_count(array.shape) != std::ssize(array.values))
        throw bad_input(text(path, ": weights of ", layer, "/", parameter, " are ", array.values.size(),
                             ", their shape has ", element_count(array.shape)));
    }
}

}  // namespace

void write_weights(const std::string& path, const Weights& weights, const Provenance& provenance) {
  validate(path, weights);
  FileWriter file(path, kWeightsSchema, provenance);
  const GroupWriter all = file.root().group("weights");
  for (const auto& [layer, parameters] : weights) {
    const GroupWriter group = all.group(layer);
    for (const auto& [parameter, array] : parameters)
      group.array<float>(parameter, array.values, array.shape, {"1", "logical order, row-major"}, Layout::checked);
  }
  file.commit();
}

Weights read_weights(const std::string& path) {
  const FileReader file(path, kWeightsSchema);
  const GroupReader all = file.root().group("weights");
  Weights weights;
  for (const std::string& layer : all.names()) {
    const GroupReader group = all.group(layer);
    auto& parameters = weights[layer];
    for (const std::string& parameter : group.names()) {
      WeightArray& array = parameters[parameter];
      array.values = group.array<float>(parameter, array.shape, Values::any);
    }
  }
  return weights;
}

}  // namespace sluice
