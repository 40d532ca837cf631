#include "runtime/nn/model_builder.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "runtime/device/layer_shapes.h"

namespace sluice {
namespace {

void require_positive(const std::string& model, const char* what, std::int64_t value) {
  if (value < 1) throw bad_input(text("model ", model, ": ", what, " is ", value, ", must be at least 1"));
}

std::string print_window(const Layer& layer) {
  return text("kernel_size=", layer.kernel, ", stride=", layer.stride, ", padding=", layer.padding, ")");
}

// In PyTorch's words, which most readers know.
std::string describe(const Layer& layer) {
  const std::int64_t in = layer.input_shape[0], out = layer.output_shape[0];
  switch (layer.kind) {
    case LayerKind::convolution:
      return text("Conv2d(", in, ", ", out, ", ", print_window(layer));
    case LayerKind::max_pool:
      return "MaxPool2d(" + print_window(layer);
    case LayerKind::average_pool:
      return "AvgPool2d(" + print_window(layer);
    case LayerKind::relu:
      return "ReLU()";
    case LayerKind::dropout:
      return text("Dropout(p=", layer.dropout_probability, ")");
    case LayerKind::linear:
      return text("Linear(", element_count(layer.input_shape), ", ", out, ")");
    case LayerKind::softmax_cross_entropy:
      return text("CrossEntropyLoss(", in, ")");
    case LayerKind::foreign:
      break;
  }
  return "";
}

/// A layer whose shapes have been checked.
void add(ModelBuilder& builder, const Layer& layer) {
  const std::int64_t out = layer.output_shape[0];
  switch (layer.kind) {
    case LayerKind::convolution:
      builder.convolution(layer.name, out, layer.kernel, layer.stride, layer.padding);
      break;
    case LayerKind::max_pool:
      builder.max_pool(layer.name, layer.kernel, layer.stride, layer.padding);
      break;
    case LayerKind::average_pool:
      builder.average_pool(layer.name, layer.kernel, layer.stride, layer.padding);
      break;
    case LayerKind::relu:
      builder.relu(layer.name);
      break;
    case LayerKind::dropout:
      builder.dropout(layer.name, layer.dropout_probability);
      break;
    case LayerKind::linear:
      builder.linear(layer.name, out);
      break;
    case LayerKind::softmax_cross_entropy:
    case LayerKind::foreign:
      break;
  }
}

}  // namespace

ModelBuilder::ModelBuilder(std::string name, ImageShape image, std::int64_t classes, std::int64_t microbatch)
    : shape_{image.channels, image.height, image.width} {
  require_positive(name, "the number of image channels", image.channels);
  require_positive(name, "the image height", image.height);
  require_positive(name, "the image width", image.width);
  require_positive(name, "the number of classes", classes);
  require_positive(name, "the micro-batch size", microbatch);
  model_.name = std::move(name);
  model_.microbatch = microbatch;
  model_.classes = classes;
  end_ = add_tensor({.name = "input", .kind = TensorKind::input}, element_count(shape_));
}

ModelBuilder& ModelBuilder::convolution(const std::string& name, std::int64_t channels, std::int64_t kernel,
                                        std::int64_t stride, std::int64_t padding) {
  Layer layer = make_layer(name, LayerKind::convolution);
  set_window(layer, channels, kernel, stride, padding);
  return append(std::move(layer), {.forward = {end_}, .backward_input = {}, .backward_weight = {end_}});
}

ModelBuilder& ModelBuilder::max_pool(const std::string& name, std::int64_t kernel, std::int64_t stride,
                                     std::int64_t padding) {
  Layer layer = make_layer(name, LayerKind::max_pool);
  set_window(layer, shape_[0], kernel, stride, padding);
  const std::int64_t windows = element_count(layer.output_shape);
  const TensorId places = next_tensor() + 1;
  append(std::move(layer), {.forward = {end_}, .backward_input = {places}, .backward_weight = {}});
  add_auxiliary("places", ElementType::uint8, windows);
  return *this;
}

ModelBuilder& ModelBuilder::average_pool(const std::string& name, std::int64_t kernel, std::int64_t stride,
                                         std::int64_t padding) {
  Layer layer = make_layer(name, LayerKind::average_pool);
  set_window(layer, shape_[0], kernel, stride, padding);
  return append(std::move(layer), {.forward = {end_}, .backward_input = {}, .backward_weight = {}});
}

ModelBuilder& ModelBuilder::relu(const std::string& name) {
  return append(make_layer(name, LayerKind::relu),
                {.forward = {end_}, .backward_input = {next_tensor()}, .backward_weight = {}});
}

ModelBuilder& ModelBuilder::dropout(const std::string& name, double probability) {
  Layer layer = make_layer(name, LayerKind::dropout);
  layer.dropout_probability = probability;
  return append(std::move(layer), {.forward = {end_}, .backward_input = {}, .backward_weight = {}});
}

ModelBuilder& ModelBuilder::linear(const std::string& name, std::int64_t features) {
  Layer layer = make_layer(name, LayerKind::linear);
  layer.output_shape = {features};
  return append(std::move(layer), {.forward = {end_}, .backward_input = {}, .backward_weight = {end_}});
}

Model ModelBuilder::softmax_cross_entropy(const std::string& name) {
  if (shape_ != std::vector{model_.classes})
    throw bad_input(text("layer ", name, ": the network must end with one value for each of its ", model_.classes,
                         " classes, but makes ", element_count(shape_)));
  Layer layer = make_layer(name, LayerKind::softmax_cross_entropy);
  layer.output_shape = {2};
  const TensorId labels =
      add_tensor({.name = "labels", .kind = TensorKind::labels, .element_type = ElementType::int32}, 1);
  const TensorId probabilities = next_tensor() + 1;
  append(std::move(layer),
         {.forward = {end_, labels}, .backward_input = {labels, probabilities}, .backward_weight = {}});
  add_auxiliary("probabilities", ElementType::float32, model_.classes);
  validate(model_);
  return std::move(model_);
}

Layer ModelBuilder::make_layer(const std::string& name, LayerKind kind) const {
  Layer layer;
  layer.name = name;
  layer.kind = kind;
  layer.input_shape = layer.output_shape = shape_;
  return layer;
}

void ModelBuilder::set_window(Layer& layer, std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                              std::int64_t padding) {
  if (shape_.size() != 3) throw bad_input(text("layer ", layer.name, " wants an image, but it was flattened before"));
  layer.kernel = kernel;
  layer.stride = stride;
  layer.padding = padding;
  layer.output_shape = {channels, window_positions(shape_[1], kernel, stride, padding),
                        window_positions(shape_[2], kernel, stride, padding)};
  if (layer.output_shape[1] < 1 || layer.output_shape[2] < 1)
    throw bad_input(text("layer ", layer.name, ": a window of ", kernel,
                         " does not fit into what is left of the image, ", shape_[1], " x ", shape_[2],
                         ": use larger images"));
}

ModelBuilder& ModelBuilder::append(Layer layer, LayerNeeds needs) {
  layer.description = describe(layer);
  layer.parameters = implied_parameters(layer);
  check_shapes(layer);
  shape_ = layer.output_shape;
  model_.needs.push_back(std::move(needs));
  const auto id = static_cast<LayerId>(model_.layers.size());
  end_ = add_tensor({.name = layer.name, .producer = id}, element_count(shape_));
  model_.layers.push_back(std::move(layer));
  return *this;
}

void ModelBuilder::add_auxiliary(const char* what, ElementType type, std::int64_t elements_per_sample) {
  const auto producer = static_cast<LayerId>(model_.layers.size() - 1);
  add_tensor({.name = model_.layers.back().name + "/" + what,
              .producer = producer,
              .kind = TensorKind::auxiliary,
              .element_type = type},
             elements_per_sample);
}

TensorId ModelBuilder::add_tensor(Tensor tensor, std::int64_t elements_per_sample) {
  tensor.bytes =
      saturating_product(model_.microbatch, saturating_product(elements_per_sample, bytes_of(tensor.element_type)));
  model_.tensors.push_back(std::move(tensor));
  return next_tensor() - 1;
}

Model with_microbatch(Model model, std::int64_t microbatch) {
  require_positive(model.name, "its own micro-batch size", model.microbatch);
  require_positive(model.name, "the micro-batch size", microbatch);
  for (Tensor& tensor : model.tensors) tensor.bytes = tensor.bytes / model.microbatch * microbatch;
  model.microbatch = microbatch;
  return model;
}

Model rebuilt(const Model& model) {
  for (const Layer& layer : model.layers) check_shapes(layer);
  const Shape& image = model.layers.front().input_shape;
  if (image.size() != 3) throw bad_input(text("layer ", model.layers.front().name, " does not take images (C, H, W)"));
  ModelBuilder builder(model.name, {image[0], image[1], image[2]}, model.classes, model.microbatch);
  const Layer& last = model.layers.back();
  for (const Layer& layer : model.layers) {
    if ((layer.kind == LayerKind::softmax_cross_entropy) != (&layer == &last))
      throw bad_input(text("layer ", layer.name, ": a model ends with its loss, and has no other"));
    if (&layer != &last) add(builder, layer);
  }
  return builder.softmax_cross_entropy(last.name);
}

double flops(const Layer& layer) {
  // Every weight of a convolution meets every place of its output.
  if (layer.kind != LayerKind::convolution && layer.kind != LayerKind::linear) return 0;
  const double places =
      layer.kind == LayerKind::convolution ? static_cast<double>(layer.output_shape[1] * layer.output_shape[2]) : 1;
  return 2 * places * static_cast<double>(element_count(layer.parameters[0].shape));
}

}  // namespace sluice
