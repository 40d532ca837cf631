#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/cluster.h"
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
  std::int64_t packed_bytes = 0;     ///< held beside the parameters by whoever runs the layer: copies of the weights in
                                     ///< the kernels' own layouts; in foreign profiles all that they say of memory
  std::int64_t workspace_bytes = 0;  ///< scratch during one call, shared between layers
  double flops = 0;                  ///< forward, per micro-batch; 0 if unknown
  double host_s = 0;                 ///< forward on a host CPU (RankSpec::host); 0 if unknown
  bool host_only = false;            ///< accelerators cannot run it
  bool operator==(const LayerCost&) const = default;
};

/// A model and what its layers cost on one kind of device.
struct Profile {
  Model model;
  std::vector<LayerCost> costs;    ///< one per layer
  bool split_backward = true;      ///< false: backward-input and backward-weight are one work
  std::string device;              ///< fingerprint of device and libraries: "host AMD EPYC, oneDNN 2.6.3 avx512_core"
  int threads = 0;                 ///< per rank, while measuring; 0 if unknown
  int concurrent_ranks = 0;        ///< ranks of the node that measured at the same time; 0 if unknown
  std::optional<Cluster> cluster;  ///< the devices to plan for, where a foreign profile names them
  bool operator==(const Profile&) const = default;
};

/// Longer than any work or update takes [s]: two weeks. Simulated times in nanoseconds stay far from overflow.
inline constexpr double kMostSeconds = 1e6;

/// Checks the model, one cost per layer, that figures are not negative and not
/// beyond kMostSeconds or kMostBytes, and that layers with kernels cost the
/// parameter bytes that they have; and the cluster if there is one.
/// @throws Error (bad input) naming layer, quantity and value.
void validate(const Profile& profile);

}  // namespace sluice
