#include "runtime/device/host/host_device.h"

#include <cstring>
#include <fstream>
#include <new>

#include "core/error.h"
#include "core/text.h"
#include "runtime/device/host/kernels.h"
#include "runtime/device/layer_shapes.h"

namespace sluice {
namespace {

class HostStream : public Stream {
 public:
  Event record() override { return {}; }
  void wait_for(const Event& event) override { event.wait(); }
};

/// Aligned to cache lines.
class HostMemory : public Buffer::Memory {
 public:
  explicit HostMemory(std::int64_t bytes)
      : data_(::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow)) {
    if (!data_) throw runtime_fault(text("the host has no ", bytes, " bytes of memory left for a buffer"));
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() override { ::operator delete(data_, kAlignment); }
  void* data() override { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  void* data_;
};

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

const char* instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core";
    default:
      return "another instruction set";
  }
}

class HostDevice : public Device {
 public:
  std::string fingerprint() const override {
    const dnnl_version_t& version = *dnnl::version();
    return text("host ", processor_name(), ", oneDNN ", version.major, '.', version.minor, '.', version.patch, ' ',
                instruction_set());
  }

  std::unique_ptr<Stream> create_stream() override { return std::make_unique<HostStream>(); }

  Buffer allocate(std::int64_t bytes) override { return {std::make_unique<HostMemory>(bytes), bytes}; }

  void copy(Stream&, void* destination, const void* source, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
  }

  std::unique_ptr<LayerKernel> create_kernel(const Layer& layer, std::int64_t microbatch) override {
    check_shapes(layer);
    switch (layer.kind) {
      case LayerKind::convolution:
      case LayerKind::linear:
        return create_weighted(engine_, layer, microbatch);
      case LayerKind::relu:
        return create_relu(layer, microbatch);
      case LayerKind::max_pool:
        return create_max_pool(layer, microbatch);
      case LayerKind::average_pool:
        return create_average_pool(layer, microbatch);
      case LayerKind::dropout:
        return create_dropout(layer, microbatch);
      case LayerKind::softmax_cross_entropy:
        return create_softmax_cross_entropy(layer, microbatch);
      case LayerKind::foreign:
        break;
    }
    throw bad_input(text("layer ", layer.name, ": the host has no kernel for ", to_string(layer.kind)));
  }

  void sgd_update(Stream&, float* weights, float* momentum_buffer, const float* gradient, std::int64_t count,
                  const SgdSettings& settings) override {
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float slope = gradient[i] + settings.weight_decay * weights[i];
      momentum_buffer[i] = settings.momentum * momentum_buffer[i] + slope;
      weights[i] -= settings.learning_rate * momentum_buffer[i];
    }
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
};

}  // namespace

std::unique_ptr<Device> create_host_device() { return std::make_unique<HostDevice>(); }

}  // namespace sluice
