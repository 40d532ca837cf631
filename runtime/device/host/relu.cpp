#include "runtime/device/host/kernels.h"

namespace sluice {
namespace {

// By hand, because oneDNN's ReLU turns NaN into 0 and would hide a diverged run.
class Relu : public PlainKernel {
 public:
  explicit Relu(std::int64_t count) : count_(count) {}

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* input = static_cast<const float*>(memory.input);
    auto* output = static_cast<float*>(memory.output);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < count_; ++i) output[i] = input[i] <= 0 ? 0 : input[i];
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    const auto* output = static_cast<const float*>(memory.output);
    const auto* output_gradient = static_cast<const float*>(memory.output_gradient);
    auto* input_gradient = static_cast<float*>(memory.input_gradient);
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < count_; ++i) {
      const float gradient = output_gradient[i];  // loaded in any case: a branch would be mispredicted half the time
      input_gradient[i] = output[i] <= 0 ? 0 : gradient;
    }
  }

 private:
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<LayerKernel> create_relu(const Layer& layer, std::int64_t microbatch) {
  return std::make_unique<Relu>(microbatch * element_count(layer.input_shape));
}

}  // namespace sluice
