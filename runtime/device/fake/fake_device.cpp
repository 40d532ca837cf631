#include "runtime/device/fake/fake_device.h"

#include <omp.h>

#include <cstring>
#include <utility>

#include "runtime/device/fake/fake_stream.h"

namespace sluice {
namespace {

void enqueue(Stream& stream, FakeStream::Work work) { static_cast<FakeStream&>(stream).enqueue(std::move(work)); }

/// Enqueues the inner kernel's calls, which share it: it lives until the last has run.
class FakeKernel : public LayerKernel {
 public:
  explicit FakeKernel(std::unique_ptr<LayerKernel> inner) : inner_(std::move(inner)) {}

  std::int64_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  std::int64_t packed_bytes() const override { return inner_->packed_bytes(); }

  void pack(Stream& stream, std::span<const float* const> parameters, void* packed) override {
    enqueue(stream, [inner = inner_, parameters = std::vector(parameters.begin(), parameters.end()),
                     packed](Stream& on) { inner->pack(on, parameters, packed); });
  }
  void forward(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context) override {
    enqueue(stream, [inner = inner_, memory, context](Stream& on) { inner->forward(on, memory, context); });
  }
  void backward_input(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context) override {
    enqueue(stream, [inner = inner_, memory, context](Stream& on) { inner->backward_input(on, memory, context); });
  }
  void backward_weight(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context,
                       std::span<float* const> gradients, bool first) override {
    enqueue(stream, [inner = inner_, memory, context, gradients = std::vector(gradients.begin(), gradients.end()),
                     first](Stream& on) { inner->backward_weight(on, memory, context, gradients, first); });
  }

 private:
  std::shared_ptr<LayerKernel> inner_;
};

class FakeDevice : public Device {
 public:
  FakeDevice(std::unique_ptr<Device> inner, const FakeSettings& settings)
      : inner_(std::move(inner)), fate_(std::make_shared<FakeFate>(settings)), openmp_threads_(omp_get_max_threads()) {}

  std::string fingerprint() const override { return "fake on " + inner_->fingerprint(); }

  std::unique_ptr<Stream> create_stream() override {
    return std::make_unique<FakeStream>(inner_->create_stream(), fate_, openmp_threads_);
  }

  Buffer allocate(std::int64_t bytes) override {
    Buffer buffer = inner_->allocate(bytes);
    std::memset(buffer.data(), 0xFF, static_cast<std::size_t>(bytes));
    return buffer;
  }

  void copy(Stream& stream, void* destination, const void* source, std::int64_t bytes) override {
    enqueue(stream, [this, destination, source, bytes](Stream& on) { inner_->copy(on, destination, source, bytes); });
  }

  std::unique_ptr<LayerKernel> create_kernel(const Layer& layer, std::int64_t microbatch) override {
    return std::make_unique<FakeKernel>(inner_->create_kernel(layer, microbatch));
  }

  void sgd_update(Stream& stream, float* weights, float* momentum_buffer, const float* gradient, std::int64_t count,
                  const SgdSettings& settings) override {
    enqueue(stream,
            [=, this](Stream& on) { inner_->sgd_update(on, weights, momentum_buffer, gradient, count, settings); });
  }

 private:
  std::unique_ptr<Device> inner_;
  std::shared_ptr<FakeFate> fate_;
  int openmp_threads_;
};

}  // namespace

std::unique_ptr<Device> create_fake_device(std::unique_ptr<Device> inner, const FakeSettings& settings) {
  return std::make_unique<FakeDevice>(std::move(inner), settings);
}

}  // namespace sluice
