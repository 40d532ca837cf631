#include "tests/device/chain_run.h"

#include <algorithm>

namespace sluice {

ChainRun::ChainRun(Device& device, const Model& model, std::uint64_t seed)
    : device_(device), model_(model), stream_(device.create_stream()) {
  std::int64_t workspace_bytes = 0;
  for (const Layer& layer : model.layers) {
    layers_.push_back(std::make_unique<LayerRuntime>(device, layer, model.microbatch, true));
    layers_.back()->init(*stream_, seed);
    workspace_bytes = std::max(workspace_bytes, layers_.back()->workspace_bytes());
  }
  workspace_ = device.allocate(workspace_bytes);
  for (const Tensor& tensor : model.tensors) {
    tensors_.push_back(device.allocate(tensor.bytes));
    gradients_.push_back(device.allocate(tensor.bytes));
  }
}

LayerMemory ChainRun::memory(LayerId layer) const {
  const auto& reads = model_.needs[static_cast<std::size_t>(layer)].forward;
  const auto made = tensors_by_producer(model_)[static_cast<std::size_t>(layer)];
  const auto data = [](const std::vector<Buffer>& buffers, const std::vector<TensorId>& ids, std::size_t i) {
    return i < ids.size() ? buffers[static_cast<std::size_t>(ids[i])].data() : nullptr;
  };
  return {.input = data(tensors_, reads, 0),
          .labels = data(tensors_, reads, 1),
          .output = data(tensors_, made, 0),
          .auxiliary = data(tensors_, made, 1),
          .output_gradient = data(gradients_, made, 0),
          .input_gradient = data(gradients_, reads, 0),
          .workspace = workspace_.data()};
}

std::vector<float> ChainRun::run(const std::vector<float>& input, const std::vector<std::int32_t>& labels,
                                 const MicrobatchContext& context, bool first) {
  const auto count = static_cast<LayerId>(layers_.size());
  const LayerMemory loss = memory(count - 1);
  device_.copy(*stream_, const_cast<void*>(memory(0).input), input.data(), 4 * std::ssize(input));
  device_.copy(*stream_, const_cast<void*>(loss.labels), labels.data(), 4 * std::ssize(labels));
  for (LayerId layer = 0; layer < count; ++layer) at(layer).forward(*stream_, memory(layer), context);
  for (LayerId layer = count - 1; layer >= 0; --layer) {
    at(layer).backward_weight(*stream_, memory(layer), context, first);
    if (layer > 0) at(layer).backward_input(*stream_, memory(layer), context);
  }
  std::vector<float> output(2 * labels.size()), losses;
  device_.copy(*stream_, output.data(), loss.output, 4 * std::ssize(output));
  stream_->record().wait();
  for (std::size_t n = 0; n < labels.size(); ++n) losses.push_back(output[2 * n]);
  return losses;
}

void ChainRun::update(const SgdSettings& settings) {
  for (auto& layer : layers_) layer->update(*stream_, settings);
}

std::vector<std::vector<float>> ChainRun::masters() {
  std::vector<std::vector<float>> all;
  for (const auto& layer : layers_) all.push_back(layer->save(*stream_));
  return all;
}

std::vector<std::vector<float>> ChainRun::gradients() {
  std::vector<std::vector<float>> all;
  for (const auto& layer : layers_) {
    all.emplace_back(static_cast<std::size_t>(layer->masters_bytes()) / sizeof(float));
    device_.copy(*stream_, all.back().data(), layer->gradients(), layer->masters_bytes());
    stream_->record().wait();
  }
  return all;
}

}  // namespace sluice
