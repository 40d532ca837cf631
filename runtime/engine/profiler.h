#pragma once

#include "core/profile.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"

namespace sluice {

struct ProfilerSettings {
  int repeats = 20;
  int warm_up = 3;  ///< sweeps before the first that counts
  int threads = 1;  ///< of this rank; recorded
};

/// Measures each layer's forward, backward-input, backward-weight and update as
/// they occur in training: whole sweeps over the model, so that caches are as
/// full of other layers' data as they will be, each on new random input, since
/// some times depend on it. All ranks measure at the same
/// time, since they share memory bandwidth and clock; per layer the median and
/// the interquartile range over the sweeps, then the median over the ranks.
/// Collective; every rank returns the same profile.
/// @throws AgreedError if a rank lacks the memory or a kernel
[[nodiscard]] Profile measure_profile(Communicator& comm, Device& device, const Model& model,
                                      const ProfilerSettings& settings);

}  // namespace sluice
