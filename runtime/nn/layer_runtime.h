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
///
/// Weights that are fetched lie where place() says: the layer holds none itself.
/// Asynchronous schedules need several versions of the weights at a time: a ring of masters and packed copies, in
/// which version v takes the place of version v - versions(). There is one set of gradients and one momentum.
class LayerRuntime {
 public:
  /// Masters hold no values until init, load or a receive followed by pack.
  /// @param updates   this rank owns backward-weight and the update: gradients and momentum are allocated
  /// @param versions  that are held at a time; 0: none, the weights are fetched
  /// @throws Error (bad input) if the device has no kernel for the layer
  LayerRuntime(Device& device, const Layer& layer, std::int64_t microbatch, bool updates, int versions = 1);

  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] int versions() const { return versions_; }
  [[nodiscard]] std::int64_t workspace_bytes() const { return weights().kernel->workspace_bytes(); }
  [[nodiscard]] std::int64_t packed_bytes() const { return weights().kernel->packed_bytes(); }  ///< of one version

  /// All parameters, one behind the other in the order of Layer::parameters,
  /// float32, in device memory: one message carries them. Null and 0 for a layer without any.
  [[nodiscard]] float* masters(std::int64_t version = 0) const { return weights(version).masters; }
  [[nodiscard]] std::int64_t masters_bytes() const { return parameter_bytes(layer_); }

  /// Where weights that are fetched next go, which must stay until the next place(): masters_bytes(), and
  /// packed_bytes() on a cache line.
  void place(void* masters, void* packed);
  /// Laid out like the masters; null unless `updates`.
  [[nodiscard]] float* gradients() const { return static_cast<float*>(gradients_.data()); }
  [[nodiscard]] float* momentum() const { return static_cast<float*>(momentum_.data()); }

  /// Versions count anew: what is the newest now is 0 from here on.
  void restart_versions();

  // These wait for the stream; values are in host memory, laid out like the masters. Of weights they set, or return,
  // the newest version. Momentum starts at zero; its two may only be called with `updates`.
  void init(Stream& stream, std::uint64_t seed);  ///< initial_values of every parameter, then pack
  /// Replaces the masters and packs. @throws Error (bad input) if the count is wrong.
  void load(Stream& stream, std::span<const float> values);
  [[nodiscard]] std::vector<float> save(Stream& stream) const;
  void load_momentum(Stream& stream, std::span<const float> values);  ///< @throws Error like load()
  [[nodiscard]] std::vector<float> save_momentum(Stream& stream) const;
  void clear_gradients(Stream& stream);  ///< to zero, where no micro-batch has written them. Only with `updates`.

  /// Hands the masters of `version`, now the newest, to the kernels. init, load and update do it themselves;
  /// a receive into masters() must be followed by it.
  void pack(Stream& stream, std::int64_t version = 0);

  void forward(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context, std::int64_t version = 0) {
    weights(version).kernel->forward(stream, memory, context);
  }
  void backward_input(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context,
                      std::int64_t version = 0) {
    weights(version).kernel->backward_input(stream, memory, context);
  }
  /// Adds the micro-batch's gradient; `first` of an update overwrites. Only with `updates`.
  void backward_weight(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context, bool first);
  /// One step of SGD with the gradients at hand makes `version` from the one before it, in its place if one
  /// version is all that is held; then pack. Only with `updates`.
  void update(Stream& stream, const SgdSettings& settings, std::int64_t version = 0);

 private:
  struct Weights {
    std::unique_ptr<LayerKernel> kernel;
    Buffer masters_memory, packed_memory;  ///< none where weights are fetched
    float* masters = nullptr;
    void* packed = nullptr;
  };
  [[nodiscard]] const Weights& weights(std::int64_t version = 0) const {
    return ring_[static_cast<std::size_t>((first_ + version) % std::ssize(ring_))];
  }
  void clear(Stream& stream, const Buffer& buffer) const;
  void require_count(std::span<const float> values) const;
  [[nodiscard]] std::vector<float> copy_of(Stream& stream, const float* values) const;

  Device& device_;
  Layer layer_;
  std::vector<std::int64_t> offsets_;  ///< of each parameter in the buffers [elements], and the end
  int versions_;
  std::vector<Weights> ring_;
  std::int64_t first_ = 0;   ///< place of version 0 in the ring
  std::int64_t newest_ = 0;  ///< version
  Buffer gradients_, momentum_;
};

}  // namespace sluice
