#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <memory>
#include <span>

#include "runtime/device/device.h"

/// The host device's kernels. All work at once in the calling thread's OpenMP
/// team, so none looks at its stream. A NaN among the inputs reaches the
/// outputs, up to the loss, which is where a run notices it.
namespace sluice {

/// A layer without parameters and without scratch.
class PlainKernel : public LayerKernel {
 public:
  [[nodiscard]] std::int64_t workspace_bytes() const override { return 0; }
  [[nodiscard]] std::int64_t packed_bytes() const override { return 0; }
  void pack(Stream&, std::span<const float* const>, void*) override {}
  void backward_weight(Stream&, const LayerMemory&, const MicrobatchContext&, std::span<float* const>, bool) override {}
};

// `layer` has passed check_shapes.
[[nodiscard]] std::unique_ptr<LayerKernel> create_relu(const Layer& layer, std::int64_t microbatch);
[[nodiscard]] std::unique_ptr<LayerKernel> create_dropout(const Layer& layer, std::int64_t microbatch);
[[nodiscard]] std::unique_ptr<LayerKernel> create_max_pool(const Layer& layer, std::int64_t microbatch);
[[nodiscard]] std::unique_ptr<LayerKernel> create_average_pool(const Layer& layer, std::int64_t microbatch);
[[nodiscard]] std::unique_ptr<LayerKernel> create_softmax_cross_entropy(const Layer& layer, std::int64_t microbatch);
/// Convolution and linear, by oneDNN.
[[nodiscard]] std::unique_ptr<LayerKernel> create_weighted(const dnnl::engine& engine, const Layer& layer,
                                                           std::int64_t microbatch);

}  // namespace sluice
