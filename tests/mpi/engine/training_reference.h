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

/// By how much gradients are out of date: update u of a layer makes version u + 1 from version u with the gradient at
/// version max(0, u - delay). PipeDream (Narayanan et al. 2019): an update for each micro-batch, delay K - 1 - k at
/// position k. PipeDream-2BW (Narayanan et al. 2021): one for each step, delay 1.
struct Staleness {
  int microbatches = 1;     ///< of one update
  std::vector<int> delays;  ///< by layer [updates]
  std::vector<std::int64_t>
      stretches;  ///< steps; each begins without gradients that are out of date, after an evaluation
};

struct TrainingOutcome {
  std::vector<float> losses;                          ///< of every step
  std::map<std::string, std::vector<float>> weights;  ///< by layer, laid out like LayerRuntime::masters()
  std::vector<double> evaluations;                    ///< losses over the test part, after each stretch
};

[[nodiscard]] std::uint64_t hash_of(const std::vector<float>& values);

/// One micro-batch after the other, forward and backward, layer by layer, on a
/// device whose memory is the host's.
[[nodiscard]] TrainingOutcome train_plainly(Device& device, const Model& model, const TrainingTask& task);

/// The same with delays, each version computed from the formula and kept.
[[nodiscard]] TrainingOutcome train_out_of_date(Device& device, const Model& model, const TrainingTask& task,
                                                const Staleness& staleness);

/// Random images and labels, the same on every call.
void write_random_dataset(const std::string& path, const Model& model, std::int64_t train, std::int64_t test);

/// Every kind of layer, with dropout twice, in 13 layers: 12 x 12 images of 2 channels, 4 classes.
[[nodiscard]] Model small_model(std::int64_t microbatch);

/// The same time for every work of every layer, and sizes that match the model; what a kernel needs stays 0.
[[nodiscard]] Profile even_profile(const Model& model);

}  // namespace sluice
