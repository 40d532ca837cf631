#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "runtime/device/device.h"

namespace sluice {

// Single layers, complete with output shape and parameters.
[[nodiscard]] Layer make_convolution(std::vector<std::int64_t> input_shape, std::int64_t channels, std::int64_t kernel,
                                     std::int64_t stride, std::int64_t padding);
[[nodiscard]] Layer make_pool(LayerKind kind, std::vector<std::int64_t> input_shape, std::int64_t kernel,
                              std::int64_t stride, std::int64_t padding);
[[nodiscard]] Layer make_linear(std::vector<std::int64_t> input_shape, std::int64_t features);
[[nodiscard]] Layer make_elementwise(LayerKind kind, std::vector<std::int64_t> shape);  ///< ReLU, dropout
[[nodiscard]] Layer make_loss(std::int64_t classes);

/// Drives one layer on a device from host vectors. Every buffer that a kernel
/// writes starts as NaN and ends in a guard that must stay untouched.
class LayerHarness {
 public:
  LayerHarness(Device& device, const Layer& layer, std::int64_t microbatch);

  void pack(const std::vector<std::vector<float>>& parameters);
  /// @return the output
  std::vector<float> forward(const std::vector<float>& input, const MicrobatchContext& context = {},
                             const std::vector<std::int32_t>& labels = {});
  /// With the output, auxiliary and labels that the last forward left. @return the input gradient
  std::vector<float> backward_input(const std::vector<float>& output_gradient, const MicrobatchContext& context = {});
  /// With the input of the last forward; adds to gradients().
  void backward_weight(const std::vector<float>& output_gradient, bool first, const MicrobatchContext& context = {});
  /// One array for each parameter.
  [[nodiscard]] std::vector<std::vector<float>> gradients();
  [[nodiscard]] std::vector<std::uint8_t> auxiliary();

  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] std::int64_t microbatch() const { return microbatch_; }
  [[nodiscard]] std::int64_t input_count() const { return microbatch_ * element_count(layer_.input_shape); }
  [[nodiscard]] std::int64_t output_count() const { return microbatch_ * element_count(layer_.output_shape); }

 private:
  [[nodiscard]] Buffer guarded(std::int64_t bytes);
  [[nodiscard]] Buffer upload(const void* data, std::int64_t bytes);
  template <typename T>
  [[nodiscard]] std::vector<T> download(const Buffer& buffer);
  void check_guards();

  Device& device_;
  Layer layer_;
  std::int64_t microbatch_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<LayerKernel> kernel_;
  Buffer input_, labels_, output_, auxiliary_, packed_, workspace_, input_gradient_;
  std::vector<Buffer> gradients_;
};

}  // namespace sluice
