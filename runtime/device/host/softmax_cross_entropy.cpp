#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/device/host/kernels.h"

namespace sluice {
namespace {

/// loss = log(sum of exp(x)) - x[label], shifted by the largest x so that nothing
/// overflows. The auxiliary holds the probabilities, (N, classes) float32.
class SoftmaxCrossEntropy : public PlainKernel {
 public:
  SoftmaxCrossEntropy(std::int64_t samples, std::int64_t classes) : samples_(samples), classes_(classes) {}

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext& context) override {
    const auto* logits = static_cast<const float*>(memory.input);
    const auto* labels = static_cast<const std::int32_t*>(memory.labels);
    auto* probabilities = static_cast<float*>(memory.auxiliary);
    auto* output = static_cast<float*>(memory.output);
#pragma omp parallel for
    for (std::int64_t n = 0; n < samples_; ++n) {
      const float* row = logits + n * classes_;
      const double log_sum = softmax(row, probabilities + n * classes_);
      const bool counts = n < context.valid_samples;
      output[2 * n] = counts ? loss(row, log_sum, labels[n]) : 0;
      output[2 * n + 1] = counts && std::max_element(row, row + classes_) - row == labels[n] ? 1 : 0;
    }
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext& context) override {
    const auto* labels = static_cast<const std::int32_t*>(memory.labels);
    const auto* probabilities = static_cast<const float*>(memory.auxiliary);
    auto* gradient = static_cast<float*>(memory.input_gradient);
#pragma omp parallel for
    for (std::int64_t n = 0; n < samples_; ++n)
      for (std::int64_t c = 0; c < classes_; ++c) {
        const float wanted = c == labels[n] ? 1 : 0;
        const std::int64_t i = n * classes_ + c;
        gradient[i] = n < context.valid_samples ? (probabilities[i] - wanted) * context.loss_scale : 0;
      }
  }

 private:
  /// Fills one row of probabilities; returns the logarithm of the sum of exponentials.
  double softmax(const float* row, float* probabilities) const {
    const double shift = *std::max_element(row, row + classes_);
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += std::exp(row[c] - shift);
    for (std::int64_t c = 0; c < classes_; ++c) probabilities[c] = static_cast<float>(std::exp(row[c] - shift) / sum);
    return shift + std::log(sum);
  }

  /// NaN for a label outside the classes: the run ends there, as for any loss that is not finite.
  float loss(const float* row, double log_sum, std::int32_t label) const {
    if (label < 0 || label >= classes_) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(log_sum - row[label]);
  }

  std::int64_t samples_, classes_;
};

}  // namespace

std::unique_ptr<LayerKernel> create_softmax_cross_entropy(const Layer& layer, std::int64_t microbatch) {
  return std::make_unique<SoftmaxCrossEntropy>(microbatch, layer.input_shape[0]);
}

}  // namespace sluice
