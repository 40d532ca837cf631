#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model.h"

/// The one interface between a network and the hardware. Work is enqueued on
/// streams and runs in stream order, possibly later: nobody may touch memory
/// that enqueued work uses before an event says that it is done.
namespace sluice {

/// Marks a point of a stream. Copies share the mark.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    [[nodiscard]] virtual bool done() = 0;  ///< never blocks; @throws Error if the work before it failed
    virtual void wait() = 0;                ///< blocks; @throws Error likewise
  };
  Event() = default;  ///< done from the start
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] bool done() const { return !state_ || state_->done(); }
  void wait() const {
    if (state_) state_->wait();
  }

 private:
  std::shared_ptr<State> state_;
};

/// A queue of work of one device, run in order.
class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual Event record() = 0;       ///< done when all that was enqueued so far is done
  virtual void wait_for(const Event& event) = 0;  ///< later work of this stream runs after `event`
};

/// Device memory, freed with the object. Move-only.
class Buffer {
 public:
  class Memory {
   public:
    virtual ~Memory() = default;
    [[nodiscard]] virtual void* data() = 0;
  };
  Buffer() = default;
  Buffer(std::unique_ptr<Memory> memory, std::int64_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}
  [[nodiscard]] void* data() const { return memory_ ? memory_->data() : nullptr; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<Memory> memory_;
  std::int64_t bytes_ = 0;
};

/// Where a micro-batch stands in the run; random numbers and scaling follow from it.
struct MicrobatchContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_position = 0;  ///< of the micro-batch's first sample in the global batch
  std::int64_t valid_samples = 0;   ///< samples from here on are padding: no loss, no count
  float loss_scale = 0;             ///< 1 / global batch; enters at the loss and nowhere else
  bool training = true;             ///< false: dropout passes everything
};

/// Device pointers of one layer call. N = model.microbatch. Unused ones are null.
struct LayerMemory {
  const void* input = nullptr;            ///< (N, H, W, C) or (N, F), float32
  const void* labels = nullptr;           ///< (N) int32: loss only
  void* output = nullptr;                 ///< (N, H_out, W_out, C_out) or (N, F_out); loss: (N, 2), per
                                          ///< sample its loss and 1 if predicted right, 0 if not
  void* auxiliary = nullptr;              ///< what forward leaves for backward
  const void* output_gradient = nullptr;  ///< shaped like output; null for the loss
  void* input_gradient = nullptr;         ///< shaped like input, overwritten
  void* workspace = nullptr;              ///< workspace_bytes(), scratch
};

/// One layer's kernels for one shape. They want its parameters in layouts of their own. Primitive, memory format and
/// fusion depend on the layer, its shape, the thread count and the device alone, never on the cut.
class LayerKernel {
 public:
  virtual ~LayerKernel() = default;
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  [[nodiscard]] virtual std::int64_t packed_bytes() const = 0;  ///< a multiple of a cache line

  /// Takes over new master weights (device pointers in the order of
  /// Layer::parameters, float32, logical order). After an update and a receive.
  /// @param packed  packed_bytes() of device memory, on a cache line, for the copies that the kernels read from now on
  virtual void pack(Stream& stream, std::span<const float* const> parameters, void* packed) = 0;

  /// Writes output and auxiliary.
  virtual void forward(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context) = 0;

  /// Writes input_gradient.
  virtual void backward_input(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context) = 0;

  /// Adds to `gradients` (shaped like the parameters); `first` overwrites instead.
  virtual void backward_weight(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context,
                               std::span<float* const> gradients, bool first) = 0;
};

/// SGD with momentum and weight decay, as PyTorch defines it:
/// v = momentum v + (g + weight_decay w); w = w - learning_rate v.
struct SgdSettings {
  float learning_rate = 0.01F;
  float momentum = 0;
  float weight_decay = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  /// What decides speed and bits: processor, instruction set, library versions.
  [[nodiscard]] virtual std::string fingerprint() const = 0;

  [[nodiscard]] virtual std::unique_ptr<Stream> create_stream() = 0;

  /// @throws Error (runtime fault) naming the bytes asked for when memory is short.
  [[nodiscard]] virtual Buffer allocate(std::int64_t bytes) = 0;

  /// Enqueues a copy; each end is device or ordinary host memory and stays valid until it is done.
  virtual void copy(Stream& stream, void* destination, const void* source, std::int64_t bytes) = 0;

  /// @throws Error (bad input) if the layer's kind or shape has no kernel here.
  [[nodiscard]] virtual std::unique_ptr<LayerKernel> create_kernel(const Layer& layer, std::int64_t microbatch) = 0;

  /// One parameter of `count` floats; `momentum_buffer` has the same size and starts at zero.
  virtual void sgd_update(Stream& stream, float* weights, float* momentum_buffer, const float* gradient,
                          std::int64_t count, const SgdSettings& settings) = 0;
};

}  // namespace sluice
