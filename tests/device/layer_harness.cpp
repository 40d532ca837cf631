#include "tests/device/layer_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "runtime/device/layer_shapes.h"

namespace sluice {
namespace {

constexpr std::int64_t kGuardBytes = 64;
constexpr std::uint8_t kUnwritten = 0xFF;  // four of them are a NaN

Layer make_layer(LayerKind kind, std::vector<std::int64_t> input_shape, std::vector<std::int64_t> output_shape) {
  Layer layer;
  layer.name = to_string(kind);
  layer.kind = kind;
  layer.input_shape = std::move(input_shape);
  layer.output_shape = std::move(output_shape);
  return layer;
}

Layer make_windowed(LayerKind kind, const std::vector<std::int64_t>& input_shape, std::int64_t channels,
                    std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  Layer layer = make_layer(kind, input_shape,
                           {channels, window_positions(input_shape[1], kernel, stride, padding),
                            window_positions(input_shape[2], kernel, stride, padding)});
  layer.kernel = kernel;
  layer.stride = stride;
  layer.padding = padding;
  layer.parameters = implied_parameters(layer);
  return layer;
}

std::int64_t auxiliary_bytes(const Layer& layer, std::int64_t microbatch) {
  if (layer.kind == LayerKind::max_pool) return microbatch * element_count(layer.output_shape);
  if (layer.kind == LayerKind::softmax_cross_entropy) return microbatch * element_count(layer.input_shape) * 4;
  return 0;
}

}  // namespace

Layer make_convolution(std::vector<std::int64_t> input_shape, std::int64_t channels, std::int64_t kernel,
                       std::int64_t stride, std::int64_t padding) {
  return make_windowed(LayerKind::convolution, input_shape, channels, kernel, stride, padding);
}

Layer make_pool(LayerKind kind, std::vector<std::int64_t> input_shape, std::int64_t kernel, std::int64_t stride,
                std::int64_t padding) {
  return make_windowed(kind, input_shape, input_shape[0], kernel, stride, padding);
}

Layer make_linear(std::vector<std::int64_t> input_shape, std::int64_t features) {
  Layer layer = make_layer(LayerKind::linear, std::move(input_shape), {features});
  layer.parameters = implied_parameters(layer);
  return layer;
}

Layer make_elementwise(LayerKind kind, std::vector<std::int64_t> shape) { return make_layer(kind, shape, shape); }

Layer make_loss(std::int64_t classes) { return make_layer(LayerKind::softmax_cross_entropy, {classes}, {2}); }

LayerHarness::LayerHarness(Device& device, const Layer& layer, std::int64_t microbatch)
    : device_(device),
      layer_(layer),
      microbatch_(microbatch),
      stream_(device.create_stream()),
      kernel_(device.create_kernel(layer, microbatch)),
      output_(guarded(4 * output_count())),
      auxiliary_(guarded(auxiliary_bytes(layer, microbatch))),
      packed_(guarded(kernel_->packed_bytes())),
      workspace_(guarded(kernel_->workspace_bytes())),
      input_gradient_(guarded(4 * input_count())) {
  for (const Parameter& parameter : layer_.parameters)
    gradients_.push_back(guarded(4 * element_count(parameter.shape)));
}

void LayerHarness::pack(const std::vector<std::vector<float>>& parameters) {
  std::vector<Buffer> masters;
  std::vector<const float*> pointers;
  for (const std::vector<float>& values : parameters) {
    masters.push_back(upload(values.data(), 4 * std::ssize(values)));
    pointers.push_back(static_cast<const float*>(masters.back().data()));
  }
  kernel_->pack(*stream_, pointers, packed_.data());
  stream_->record().wait();  // the masters go away here: a kernel keeps its own copy
}

std::vector<float> LayerHarness::forward(const std::vector<float>& input, const MicrobatchContext& context,
                                         const std::vector<std::int32_t>& labels) {
  input_ = upload(input.data(), 4 * std::ssize(input));
  labels_ = upload(labels.data(), 4 * std::ssize(labels));
  kernel_->forward(*stream_,
                   {.input = input_.data(),
                    .labels = labels_.data(),
                    .output = output_.data(),
                    .auxiliary = auxiliary_.data(),
                    .workspace = workspace_.data()},
                   context);
  check_guards();
  return download<float>(output_);
}

std::vector<float> LayerHarness::backward_input(const std::vector<float>& output_gradient,
                                                const MicrobatchContext& context) {
  const Buffer gradient = upload(output_gradient.data(), 4 * std::ssize(output_gradient));
  kernel_->backward_input(*stream_,
                          {.labels = labels_.data(),
                           .output = output_.data(),
                           .auxiliary = auxiliary_.data(),
                           .output_gradient = gradient.data(),
                           .input_gradient = input_gradient_.data(),
                           .workspace = workspace_.data()},
                          context);
  check_guards();
  return download<float>(input_gradient_);
}

void LayerHarness::backward_weight(const std::vector<float>& output_gradient, bool first,
                                   const MicrobatchContext& context) {
  const Buffer gradient = upload(output_gradient.data(), 4 * std::ssize(output_gradient));
  std::vector<float*> sums;
  for (const Buffer& sum : gradients_) sums.push_back(static_cast<float*>(sum.data()));
  kernel_->backward_weight(*stream_,
                           {.input = input_.data(), .output_gradient = gradient.data(), .workspace = workspace_.data()},
                           context, sums, first);
  check_guards();
}

std::vector<std::vector<float>> LayerHarness::gradients() {
  std::vector<std::vector<float>> result;
  for (const Buffer& sum : gradients_) result.push_back(download<float>(sum));
  return result;
}

std::vector<std::uint8_t> LayerHarness::auxiliary() { return download<std::uint8_t>(auxiliary_); }

Buffer LayerHarness::guarded(std::int64_t bytes) {
  const std::vector<std::uint8_t> fill(static_cast<std::size_t>(bytes + kGuardBytes), kUnwritten);
  return upload(fill.data(), std::ssize(fill));
}

Buffer LayerHarness::upload(const void* data, std::int64_t bytes) {
  Buffer buffer = device_.allocate(bytes);
  device_.copy(*stream_, buffer.data(), data, bytes);
  stream_->record().wait();
  return buffer;
}

template <typename T>
std::vector<T> LayerHarness::download(const Buffer& buffer) {
  std::vector<T> values(static_cast<std::size_t>(buffer.bytes() - kGuardBytes) / sizeof(T));
  device_.copy(*stream_, values.data(), buffer.data(), std::ssize(values) * static_cast<std::int64_t>(sizeof(T)));
  stream_->record().wait();
  return values;
}

void LayerHarness::check_guards() {
  std::vector<const Buffer*> buffers{&output_, &auxiliary_, &packed_, &workspace_, &input_gradient_};
  for (const Buffer& sum : gradients_) buffers.push_back(&sum);
  for (const Buffer* buffer : buffers) {
    std::vector<std::uint8_t> guard(static_cast<std::size_t>(kGuardBytes));
    const auto* const end = static_cast<const std::uint8_t*>(buffer->data()) + buffer->bytes();
    device_.copy(*stream_, guard.data(), end - kGuardBytes, kGuardBytes);
    stream_->record().wait();
    EXPECT_TRUE(std::all_of(guard.begin(), guard.end(), [](std::uint8_t byte) { return byte == kUnwritten; }))
        << layer_.name << " writes behind a buffer of " << buffer->bytes() - kGuardBytes << " bytes";
  }
}

}  // namespace sluice
