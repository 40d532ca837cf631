#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model.h"
#include "runtime/device/device.h"

namespace sluice {

/// Initial values of one parameter of a layer, in logical order (host memory).
/// Weights: He, Zhang, Ren, Sun 2015, uniform in [-b, b), b = sqrt(6 / fan_in); biases: 0.
/// Drawn from Philox with key (seed, "layer/parameter") and counter = element:
/// the same on every rank and for every plan.
[[nodiscard]] std::vector<float> initial_values(const Layer& layer, const Parameter& parameter, std::uint64_t seed);

/// What a rank holds of one layer: its kernels, its master weights and, where it
/// updates them, gradients and momentum. Calls enqueue on a stream and return.
class LayerRuntime {
 public:
  /// Masters hold no values until init, load or a receive followed by pack.
  /// @param updates  this rank owns backward-weight and the update: gradients and momentum are allocated
  /// @throws Error (bad input) if the device has no kernel for the layer
  LayerRuntime(Device& device, const Layer& layer, std::int64_t microbatch, bool updates);

  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] std::int64_t workspace_bytes() const { return kernel_->workspace_bytes(); }
  [[nodiscard]] std::int64_t packed_bytes() const { return kernel_->packed_bytes(); }

  /// All parameters, one behind the other in the order of Layer::parameters,
  /// float32, in device memory: one message carries them. Null and 0 for a layer without any.
  [[nodiscard]] float* masters() const { return static_cast<float*>(masters_.data()); }
  [[nodiscard]] std::int64_t masters_bytes() const { return masters_.bytes(); }
  /// Laid out like the masters; null unless `updates`.
  [[nodiscard]] float* gradients() const { return static_cast<float*>(gradients_.data()); }
  [[nodiscard]] float* momentum() const { return static_cast<float*>(momentum_.data()); }

  // These three wait for the stream; values are in host memory, laid out like the masters. Momentum
  // starts at zero and none of them touches it.
  void init(Stream& stream, std::uint64_t seed);  ///< initial_values of every parameter, then pack
  /// Replaces the masters and packs. @throws Error (bad input) if the count is wrong.
  void load(Stream& stream, std::span<const float> values);
  [[nodiscard]] std::vector<float> save(Stream& stream) const;

  /// Hands the masters to the kernels. init, load and update do it themselves;
  /// a receive into masters() must be followed by it.
  void pack(Stream& stream);

  void forward(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context) {
    kernel_->forward(stream, memory, context);
  }
  void backward_input(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context) {
    kernel_->backward_input(stream, memory, context);
  }
  /// Adds the micro-batch's gradient; `first` of a step overwrites. Only with `updates`.
  void backward_weight(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context, bool first);
  /// One step of SGD on the masters with the gradients at hand, then pack. Only with `updates`.
  void update(Stream& stream, const SgdSettings& settings);

 private:
  Device& device_;
  Layer layer_;
  std::vector<std::int64_t> offsets_;  ///< of each parameter in the buffers [elements], and the end
  std::unique_ptr<LayerKernel> kernel_;
  Buffer masters_, gradients_, momentum_;
};

}  // namespace sluice
