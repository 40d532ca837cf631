#include <algorithm>

#include "core/hash.h"
#include "core/philox.h"
#include "runtime/device/host/kernels.h"

namespace sluice {
namespace {

/// Inverted dropout (Srivastava et al. 2014): keeps an element with probability
/// 1 - p and divides it by that. The mask is not stored: forward and backward
/// draw it from Philox with the key (seed, layer name) and the counter (element / 4,
/// position in the global batch, step, step >> 32), so that it does not depend
/// on how the batch is cut. Elements count in memory order within a sample.
class Dropout : public PlainKernel {
 public:
  Dropout(const Layer& layer, std::int64_t microbatch)
      : name_hash_(fnv1a(layer.name)),
        probability_(static_cast<float>(layer.dropout_probability)),
        samples_(microbatch),
        elements_(element_count(layer.input_shape)) {}

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext& context) override {
    const auto* input = static_cast<const float*>(memory.input);
    auto* output = static_cast<float*>(memory.output);
    if (context.training)
      mask(input, output, context);
    else
      std::copy_n(input, samples_ * elements_, output);
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext& context) override {
    mask(static_cast<const float*>(memory.output_gradient), static_cast<float*>(memory.input_gradient), context);
  }

 private:
  void mask(const float* from, float* to, const MicrobatchContext& context) const {
    const PhiloxKey key = philox_key(context.seed, name_hash_);
    const auto step = static_cast<std::uint64_t>(context.step);
    const float scale = 1 / (1 - probability_);
#pragma omp parallel for collapse(2)
    for (std::int64_t sample = 0; sample < samples_; ++sample)
      for (std::int64_t block = 0; block < (elements_ + 3) / 4; ++block) {
        const PhiloxCounter words =
            philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(context.first_position + sample),
                    static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)},
                   key);
        const std::int64_t first = sample * elements_ + 4 * block;
        const std::int64_t count = std::min<std::int64_t>(4, elements_ - 4 * block);
        for (std::int64_t i = 0; i < count; ++i)
          to[first + i] = uniform01(words[static_cast<std::size_t>(i)]) < probability_ ? 0 : from[first + i] * scale;
      }
  }

  std::uint64_t name_hash_;
  float probability_;
  std::int64_t samples_, elements_;
};

}  // namespace

std::unique_ptr<LayerKernel> create_dropout(const Layer& layer, std::int64_t microbatch) {
  return std::make_unique<Dropout>(layer, microbatch);
}

}  // namespace sluice
