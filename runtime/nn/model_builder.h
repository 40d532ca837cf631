#pragma once

#include <cstdint>
#include <string>

#include "core/model.h"

namespace sluice {

/// Extent of one image of the dataset, per sample.
struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Builds a chain of runnable layers: shapes, parameters, the tensor table with
/// its bytes per micro-batch, and what each work reads. Layers are appended to
/// the end of the chain; `softmax_cross_entropy` closes it.
class ModelBuilder {
 public:
  /// @throws Error (bad input) if an extent, `classes` or `microbatch` is below 1.
  ModelBuilder(std::string name, ImageShape image, std::int64_t classes, std::int64_t microbatch);

  /// All windows are square.
  /// @throws Error (bad input) naming the layer if the window does not fit into what is left of the image.
  ModelBuilder& convolution(const std::string& name, std::int64_t channels, std::int64_t kernel,
                            std::int64_t stride = 1, std::int64_t padding = 0);
  ModelBuilder& max_pool(const std::string& name, std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0);
  ModelBuilder& average_pool(const std::string& name, std::int64_t kernel, std::int64_t stride,
                             std::int64_t padding = 0);
  ModelBuilder& relu(const std::string& name);
  ModelBuilder& dropout(const std::string& name, double probability);
  ModelBuilder& linear(const std::string& name, std::int64_t features);  ///< flattens an image in C, H, W order
  [[nodiscard]] Model softmax_cross_entropy(const std::string& name);

 private:
  [[nodiscard]] Layer make_layer(const std::string& name, LayerKind kind) const;
  void set_window(Layer& layer, std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t padding);
  ModelBuilder& append(Layer layer, LayerNeeds needs);  ///< the layer's output becomes next_tensor()
  void add_auxiliary(const char* what, ElementType type, std::int64_t elements_per_sample);  ///< of the last layer
  TensorId add_tensor(Tensor tensor, std::int64_t elements_per_sample);
  [[nodiscard]] TensorId next_tensor() const { return static_cast<TensorId>(model_.tensors.size()); }

  Model model_;
  Shape shape_;           ///< of the chain's end, per sample
  TensorId end_ = kNone;  ///< the tensor at the chain's end
};

/// The same model for another micro-batch size: only the tensors' bytes change.
/// @throws Error (bad input) if either size is below 1 (a foreign profile does not know its own).
[[nodiscard]] Model with_microbatch(Model model, std::int64_t microbatch);

/// The chain of the same layers as ModelBuilder makes it: tensors and needs follow from them.
/// @throws Error (bad input) naming the layer that cannot be run or does not fit the one before it.
[[nodiscard]] Model rebuilt(const Model& model);

/// Floating-point operations of one sample's forward pass: 2 per multiply-add;
/// 0 for layers that do no arithmetic worth counting. Each of the two backward
/// works of a convolution or linear layer costs as much.
[[nodiscard]] double flops(const Layer& layer);

}  // namespace sluice
