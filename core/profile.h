#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model.h"

namespace sluice {

/// Measured (or imported) costs of one layer per micro-batch.
struct LayerCost {
  double forward_s = 0;          ///< median
  double backward_input_s = 0;   ///< all of backward if the profile does not split it
  double backward_weight_s = 0;  ///< 0 if the profile does not split it
  double forward_spread_s = 0;   ///< interquartile range, as are the next two
  double backward_input_spread_s = 0;
  double backward_weight_spread_s = 0;
  double update_s = 0;               ///< weight update, once per step
  std::int64_t parameter_bytes = 0;  ///< float32 masters
  std::int64_t packed_bytes = 0;     ///< copies of the weights in the kernels' own layouts
  std::int64_t workspace_bytes = 0;  ///< scratch during one call, shared between layers
  double flops = 0;                  ///< forward, per micro-batch; 0 if unknown
  bool operator==(const LayerCost&) const = default;
};

/// A model and what its layers cost on one kind of device.
struct Profile {
  Model model;
  std::vector<LayerCost> costs;  ///< one per layer
  bool split_backward = true;    ///< false: backward-input and backward-weight are one work
  std::string device;            ///< fingerprint of device and libraries: "host AMD EPYC, oneDNN 2.6.3 avx512_core"
  int threads = 0;               ///< per rank, while measuring; 0 if unknown
  int concurrent_ranks = 0;      ///< ranks of the node that measured at the same time; 0 if unknown
  bool operator==(const Profile&) const = default;
};

/// Longer than any work or update takes [s]: two weeks. Simulated times in nanoseconds stay far from overflow.
inline constexpr double kMostSeconds = 1e6;

/// Checks the model, one cost per layer, that figures are not negative and not
/// beyond kMostSeconds or kMostBytes, and that layers with kernels cost the
/// parameter bytes that they have.
/// @throws Error (bad input) naming layer, quantity and value.
void validate(const Profile& profile);

}  // namespace sluice
