#include "runtime/device/layer_shapes.h"

#include <string>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

// Max pooling stores the place inside its window in a byte.
constexpr std::int64_t kMaxPoolKernel = 16;

std::string print(const Shape& shape) {
  std::string list;
  for (const std::int64_t extent : shape) list += text(list.empty() ? "" : ", ", extent);
  return "(" + list + ")";
}

void require(const Layer& layer, bool good, const char* rule) {
  if (!good)
    throw bad_input(text("layer ", layer.name, " (", to_string(layer.kind), ", input ", print(layer.input_shape),
                         ", output ", print(layer.output_shape), ", kernel ", layer.kernel, ", stride ", layer.stride,
                         ", padding ", layer.padding, "): ", rule));
}

void check_window(const Layer& layer) {
  require(layer, layer.input_shape.size() == 3 && layer.output_shape.size() == 3, "wants (C, H, W) on both sides");
  require(layer, layer.kernel >= 1 && layer.stride >= 1, "kernel and stride must be at least 1");
  require(layer, layer.padding >= 0 && layer.padding < layer.kernel, "padding must be less than the kernel");
  for (const std::size_t axis : {1U, 2U})
    require(layer,
            window_positions(layer.input_shape[axis], layer.kernel, layer.stride, layer.padding) ==
                layer.output_shape[axis],
            "the output is not what the window makes of the input");
}

void check_pool(const Layer& layer) {
  check_window(layer);
  require(layer, layer.input_shape[0] == layer.output_shape[0], "pooling keeps the channels");
  require(layer, layer.kernel <= kMaxPoolKernel, "pooling kernels go up to 16");
}

void check_loss(const Layer& layer) {
  require(layer, layer.input_shape.size() == 1, "wants one value per class");
  require(layer, layer.output_shape == Shape{2}, "the output holds a sample's loss and whether it was right: (2)");
}

void check_kind(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::convolution:
      return check_window(layer);
    case LayerKind::max_pool:
    case LayerKind::average_pool:
      return check_pool(layer);
    case LayerKind::linear:
      require(layer, layer.input_shape.size() == 1 || layer.input_shape.size() == 3, "wants (F) or (C, H, W)");
      return require(layer, layer.output_shape.size() == 1, "makes (F)");
    case LayerKind::relu:
    case LayerKind::dropout:
      return require(layer, layer.input_shape == layer.output_shape, "keeps the shape");
    case LayerKind::softmax_cross_entropy:
      return check_loss(layer);
    case LayerKind::foreign:
      break;
  }
  require(layer, false, "it was imported as costs only; it can be planned, not run");
}

}  // namespace

std::int64_t window_positions(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  const std::int64_t room = extent + 2 * padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

std::vector<Parameter> implied_parameters(const Layer& layer) {
  const Shape& in = layer.input_shape;
  const Shape& out = layer.output_shape;
  if (layer.kind == LayerKind::convolution)
    return {{"weight", {out[0], in[0], layer.kernel, layer.kernel}}, {"bias", {out[0]}}};
  if (layer.kind == LayerKind::linear) return {{"weight", {out[0], element_count(in)}}, {"bias", {out[0]}}};
  return {};
}

void check_shapes(const Layer& layer) {
  require(layer, !layer.input_shape.empty() && !layer.output_shape.empty(), "has a side without a shape");
  for (const Shape& shape : {layer.input_shape, layer.output_shape})
    for (const std::int64_t extent : shape) require(layer, extent >= 1, "every extent must be at least 1");
  check_kind(layer);
  require(layer, layer.parameters == implied_parameters(layer), "its parameters do not fit its shapes");
}

}  // namespace sluice
