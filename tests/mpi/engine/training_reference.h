#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/profile.h"
#include "runtime/device/device.h"

/// The oracle of the engine's tests: training without plan, executor and MPI.
namespace sluice {

struct TrainingTask {
  std::string data;  ///< dataset file
  int microbatches = 1;
  std::int64_t steps = 5;
  std::uint64_t seed = 1;
  SgdSettings sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 1e-3F};
};

struct TrainingOutcome {
  std::vector<float> losses;                     ///< of every step
  std::map<std::string, std::uint64_t> weights;  ///< by layer: hash of all bytes
};

[[nodiscard]] std::uint64_t hash_of(const std::vector<float>& values);

/// One micro-batch after the other, forward and backward, layer by layer, on a
/// device whose memory is the host's.
[[nodiscard]] TrainingOutcome train_plainly(Device& device, const Model& model, const TrainingTask& task);

/// Random images and labels, the same on every call.
void write_random_dataset(const std::string& path, const Model& model, std::int64_t train, std::int64_t test);

/// Every kind of layer, with dropout twice, in 13 layers: 12 x 12 images of 2 channels, 4 classes.
[[nodiscard]] Model small_model(std::int64_t microbatch);

/// The same time for every work of every layer, and sizes that match the model; what a kernel needs stays 0.
[[nodiscard]] Profile even_profile(const Model& model);

}  // namespace sluice
