#include "runtime/nn/layer_runtime.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/hash.h"
#include "core/philox.h"
#include "core/text.h"

namespace sluice {
namespace {

std::vector<std::int64_t> parameter_offsets(const Layer& layer) {
  std::vector<std::int64_t> offsets{0};
  for (const Parameter& parameter : layer.parameters)
    offsets.push_back(offsets.back() + element_count(parameter.shape));
  return offsets;
}

/// One pointer for each parameter into a buffer laid out like the masters.
template <typename T>
std::vector<T*> split(T* buffer, const std::vector<std::int64_t>& offsets) {
  std::vector<T*> parts;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) parts.push_back(buffer + offsets[i]);
  return parts;
}

}  // namespace

std::vector<float> initial_values(const Layer& layer, const Parameter& parameter, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(element_count(parameter.shape)));
  if (parameter.name == "bias") return values;
  const auto fan_in = static_cast<double>(element_count(parameter.shape) / parameter.shape[0]);
  const double bound = std::sqrt(6 / fan_in);
  const PhiloxKey key = philox_key(seed, fnv1a(layer.name + "/" + parameter.name));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t block = i / 4;
    const PhiloxCounter words =
        philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    values[i] = static_cast<float>((2 * double{uniform01(words[i % 4])} - 1) * bound);
  }
  return values;
}

LayerRuntime::LayerRuntime(Device& device, const Layer& layer, std::int64_t microbatch, bool updates, int versions)
    : device_(device),
      layer_(layer),
      offsets_(parameter_offsets(layer)),
      versions_(parameter_bytes(layer) > 0 ? versions : 1) {
  const std::int64_t bytes = parameter_bytes(layer);
  for (int i = 0; i < std::max(1, versions_); ++i) {
    Weights& weights = ring_.emplace_back();
    weights.kernel = device.create_kernel(layer, microbatch);
    if (bytes == 0 || versions_ == 0) continue;
    weights.masters_memory = device.allocate(bytes);
    weights.packed_memory = device.allocate(weights.kernel->packed_bytes());
    weights.masters = static_cast<float*>(weights.masters_memory.data());
    weights.packed = weights.packed_memory.data();
  }
  if (bytes == 0 || !updates) return;
  gradients_ = device.allocate(bytes);
  momentum_ = device.allocate(bytes);
  clear(*device.create_stream(), momentum_);
}

void LayerRuntime::clear(Stream& stream, const Buffer& buffer) const {
  const std::vector<float> zeros(static_cast<std::size_t>(offsets_.back()));
  device_.copy(stream, buffer.data(), zeros.data(), buffer.bytes());
  stream.record().wait();
}

void LayerRuntime::clear_gradients(Stream& stream) { clear(stream, gradients_); }

void LayerRuntime::init(Stream& stream, std::uint64_t seed) {
  std::vector<float> values;
  for (const Parameter& parameter : layer_.parameters) {
    const std::vector<float> part = initial_values(layer_, parameter, seed);
    values.insert(values.end(), part.begin(), part.end());
  }
  load(stream, values);
}

void LayerRuntime::require_count(std::span<const float> values) const {
  if (std::ssize(values) != offsets_.back())
    throw bad_input(text("layer ", layer_.name, " has ", offsets_.back(), " parameters, but ", values.size(),
                         " values were given"));
}

void LayerRuntime::load(Stream& stream, std::span<const float> values) {
  require_count(values);
  if (values.empty()) return;
  device_.copy(stream, masters(newest_), values.data(), masters_bytes());
  pack(stream, newest_);
  stream.record().wait();
}

void LayerRuntime::load_momentum(Stream& stream, std::span<const float> values) {
  require_count(values);
  device_.copy(stream, momentum(), values.data(), masters_bytes());
  stream.record().wait();
}

std::vector<float> LayerRuntime::copy_of(Stream& stream, const float* values) const {
  std::vector<float> copy(static_cast<std::size_t>(offsets_.back()));
  device_.copy(stream, copy.data(), values, masters_bytes());
  stream.record().wait();
  return copy;
}

std::vector<float> LayerRuntime::save(Stream& stream) const { return copy_of(stream, masters(newest_)); }
std::vector<float> LayerRuntime::save_momentum(Stream& stream) const { return copy_of(stream, momentum()); }

void LayerRuntime::place(void* masters, void* packed) {
  ring_.front().masters = static_cast<float*>(masters);
  ring_.front().packed = packed;
}

void LayerRuntime::restart_versions() {
  first_ += newest_;
  newest_ = 0;
}

void LayerRuntime::pack(Stream& stream, std::int64_t version) {
  if (!masters()) return;
  const Weights& packed = weights(version);
  packed.kernel->pack(stream, split(static_cast<const float*>(packed.masters), offsets_), packed.packed);
  newest_ = version;
}

void LayerRuntime::backward_weight(Stream& stream, const LayerMemory& memory, const MicrobatchContext& context,
                                   bool first) {
  if (masters()) weights().kernel->backward_weight(stream, memory, context, split(gradients(), offsets_), first);
}

void LayerRuntime::update(Stream& stream, const SgdSettings& settings, std::int64_t version) {
  if (!masters()) return;
  if (float* previous = masters(version - 1); previous != masters(version))
    device_.copy(stream, masters(version), previous, masters_bytes());
  device_.sgd_update(stream, masters(version), momentum(), gradients(), offsets_.back(), settings);
  pack(stream, version);
}

}  // namespace sluice
