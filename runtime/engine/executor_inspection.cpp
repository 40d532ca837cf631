// What an executor holds, looked at between two runs.
#include <algorithm>
#include <cmath>

#include "core/index.h"
#include "runtime/engine/executor.h"

namespace sluice {

bool Executor::is_finite(const Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.bytes()) / sizeof(float));
  device_.copy(*stream_, values.data(), buffer.data(), buffer.bytes());
  settle(stream_->record());
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

std::optional<LayerId> Executor::first_layer_not_finite() {
  for (LayerId layer = 0; layer < std::ssize(model_.layers); ++layer)
    for (const TensorId t : made_[at(layer)]) {
      const Tensor& tensor = model_.tensors[at(t)];
      if (tensor.kind != TensorKind::output || tensor.element_type != ElementType::float32) continue;
      // A rank may hold the output of a layer that another rank runs: it names the same layer.
      for (const Buffer& buffer : buffers_.slots({Payload::activation, t, kNone}))
        if (!is_finite(buffer)) return layer;
    }
  return std::nullopt;
}

std::map<LayerId, std::vector<float>> Executor::weights() {
  std::map<LayerId, std::vector<float>> weights;
  for (auto& [id, layer] : layers_)
    if (layer.versions() > 0) weights[id] = layer.save(*stream_);
  return weights;
}

std::int64_t Executor::allocated_bytes() const {
  std::int64_t bytes =
      fetch_slots_.bytes() + buffers_.bytes() + workspace_.bytes() + scratch_.first.bytes() + scratch_.second.bytes();
  for (const auto& [id, layer] : layers_) {
    bytes += layer.versions() * (layer.masters_bytes() + layer.packed_bytes());
    if (layer.gradients() != nullptr) bytes += 2 * layer.masters_bytes();  // gradients, momentum
  }
  return bytes;
}

}  // namespace sluice
