#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/storage/values.h"
#include "core/storage/writer.h"

namespace sluice {

/// One trainable array in logical order (see Parameter).
struct WeightArray {
  Shape shape;
  std::vector<float> values;  ///< row-major
  bool operator==(const WeightArray&) const = default;
};

/// Layer name -> parameter name -> array: /weights/<layer>/<parameter> of a file
/// of schema sluice/weights.
using Weights = std::map<std::string, std::map<std::string, WeightArray>>;

/// Values that are not finite are kept: a diverged run is worth looking at.
/// @throws Error (bad input) naming file and dataset
[[nodiscard]] Weights read_weights(const std::string& path);

/// @throws Error (bad input) if a name cannot be that of a dataset, sizes do not
///         match shapes, or the path cannot be written; (runtime fault) if the disk is full
void write_weights(const std::string& path, const Weights& weights, const Provenance& provenance = {});

}  // namespace sluice
