#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/nn/layer_runtime.h"

namespace sluice {

/// Trains a chain of layers on one stream, layer after layer: the plainest user of LayerRuntime.
class ChainRun {
 public:
  ChainRun(Device& device, const Model& model, std::uint64_t seed);

  /// Forward and backward of one micro-batch; gradients are added unless `first`.
  /// @param input   (N, H, W, C)
  /// @param labels  (N)
  /// @return        loss of each sample
  std::vector<float> run(const std::vector<float>& input, const std::vector<std::int32_t>& labels,
                         const MicrobatchContext& context, bool first);
  void update(const SgdSettings& settings);

  [[nodiscard]] std::vector<std::vector<float>> masters();    ///< one array for each layer
  [[nodiscard]] std::vector<std::vector<float>> gradients();  ///< likewise
  void load(LayerId layer, const std::vector<float>& values) { at(layer).load(*stream_, values); }

 private:
  [[nodiscard]] LayerRuntime& at(LayerId layer) { return *layers_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] LayerMemory memory(LayerId layer) const;

  Device& device_;
  Model model_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<LayerRuntime>> layers_;
  std::vector<Buffer> tensors_, gradients_;  ///< one for each tensor of the model
  Buffer workspace_;
};

}  // namespace sluice
