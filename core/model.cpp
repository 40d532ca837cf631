#include "core/model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr std::array kKindNames{
    std::pair{LayerKind::foreign, "foreign"},
    std::pair{LayerKind::convolution, "convolution"},
    std::pair{LayerKind::relu, "relu"},
    std::pair{LayerKind::max_pool, "max_pool"},
    std::pair{LayerKind::average_pool, "average_pool"},
    std::pair{LayerKind::linear, "linear"},
    std::pair{LayerKind::dropout, "dropout"},
    std::pair{LayerKind::softmax_cross_entropy, "softmax_cross_entropy"},
};

void require_size(const std::string& what, std::int64_t bytes) {
  if (bytes < 0 || bytes > kMostBytes)
    throw bad_input(text(what, " take ", bytes, " bytes, expected 0 to ", kMostBytes));
}

void validate_layer(const Layer& layer) {
  if (layer.name.empty()) throw bad_input("a layer has no name");
  for (const std::int64_t attribute : {layer.kernel, layer.stride, layer.padding})
    if (attribute < 0 || attribute > kMostBytes)
      throw bad_input(text("layer ", layer.name, ": window attribute ", attribute, " is not in 0 to ", kMostBytes));
  if (!(layer.dropout_probability >= 0 && layer.dropout_probability < 1))
    throw bad_input(
        text("layer ", layer.name, ": dropout probability ", layer.dropout_probability, " is not in [0, 1)"));
  for (const auto& shape : {layer.input_shape, layer.output_shape})
    for (const std::int64_t extent : shape)
      if (extent < 1 || extent > kMostBytes)
        throw bad_input(text("layer ", layer.name, ": extent ", extent, " of its shape is not in 1 to ", kMostBytes));
  if (layer.colocation < kNone)
    throw bad_input(
        text("layer ", layer.name, ": co-location class ", layer.colocation, ", expected at least ", kNone));
  for (const Parameter& parameter : layer.parameters)
    for (const std::int64_t extent : parameter.shape)
      if (extent < 1)
        throw bad_input(text("layer ", layer.name, ": parameter ", parameter.name, " has extent ", extent));
  require_size("the parameters of layer " + layer.name, parameter_bytes(layer));
}

/// `self_allowed`: a backward may read what its own layer's forward made.
void validate_reads(const Model& model, LayerId layer, const std::vector<TensorId>& reads, const char* work,
                    bool self_allowed) {
  const std::string& name = model.layers[static_cast<std::size_t>(layer)].name;
  std::set<TensorId> seen;
  for (const TensorId tensor : reads) {
    if (tensor < 0 || tensor >= std::ssize(model.tensors))
      throw bad_input(
          text("layer ", name, ": ", work, " reads tensor ", tensor, ", but there are ", model.tensors.size()));
    if (!seen.insert(tensor).second)
      throw bad_input(text("layer ", name, ": ", work, " lists tensor ", tensor, " twice"));
    const Tensor& t = model.tensors[static_cast<std::size_t>(tensor)];
    if (t.producer > layer || (t.producer == layer && !self_allowed))
      throw bad_input(
          text("layer ", name, ": ", work, " reads tensor ", t.name, " of layer ",
               model.layers[static_cast<std::size_t>(t.producer)].name,
               ", which does not come before it: the edges have a cycle or the layers are not in topological order"));
  }
}

/// Buffers and messages are as large as the table of tensors says, kernels read and write what the shapes say.
void validate_sizes(const Model& model) {
  const auto require = [&](const Tensor& tensor, const Layer& layer, const Shape& shape) {
    const std::int64_t elements = tensor.kind == TensorKind::labels ? 1 : element_count(shape);
    const std::int64_t bytes =
        saturating_product(model.microbatch, saturating_product(elements, bytes_of(tensor.element_type)));
    if (tensor.bytes != bytes)
      throw bad_input(text("tensor ", tensor.name, " of layer ", layer.name, " has ", tensor.bytes,
                           " bytes, but its shape makes ", bytes, ": profile the model anew"));
  };
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    if (layer.kind == LayerKind::foreign) continue;
    for (const TensorId read : model.needs[l].forward)
      require(model.tensors[static_cast<std::size_t>(read)], layer, layer.input_shape);
    for (const Tensor& tensor : model.tensors)
      if (tensor.producer == static_cast<LayerId>(l) && tensor.kind == TensorKind::output)
        require(tensor, layer, layer.output_shape);
  }
}

}  // namespace

std::int64_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::bfloat16:
      return 2;
    case ElementType::uint8:
      return 1;
  }
  return 0;
}

const char* to_string(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return "float32";
    case ElementType::bfloat16:
      return "bfloat16";
    case ElementType::int32:
      return "int32";
    case ElementType::uint8:
      return "uint8";
  }
  return "unknown";
}

const char* to_string(TensorKind kind) {
  switch (kind) {
    case TensorKind::input:
      return "input";
    case TensorKind::labels:
      return "labels";
    case TensorKind::output:
      return "output";
    case TensorKind::auxiliary:
      return "auxiliary";
  }
  return "unknown";
}

const char* to_string(LayerKind kind) {
  for (const auto& [value, name] : kKindNames)
    if (value == kind) return name;
  return "unknown";
}

LayerKind layer_kind_from(const std::string& name) {
  for (const auto& [value, known] : kKindNames)
    if (name == known) return value;
  throw bad_input(text("unknown layer kind '", name, "'"));
}

std::int64_t parameter_bytes(const Layer& layer) {
  std::int64_t count = 0;
  for (const Parameter& parameter : layer.parameters)
    if (__builtin_add_overflow(count, element_count(parameter.shape), &count))
      return std::numeric_limits<std::int64_t>::max();
  return saturating_product(count, bytes_of(ElementType::float32));
}

std::vector<std::vector<TensorId>> tensors_by_producer(const Model& model) {
  std::vector<std::vector<TensorId>> made(model.layers.size());
  for (const TensorKind kind : {TensorKind::output, TensorKind::auxiliary})
    for (TensorId t = 0; t < std::ssize(model.tensors); ++t) {
      const Tensor& tensor = model.tensors[static_cast<std::size_t>(t)];
      if (tensor.kind == kind) made[static_cast<std::size_t>(tensor.producer)].push_back(t);
    }
  return made;
}

std::vector<std::vector<LayerId>> consumers_by_tensor(const Model& model) {
  std::vector<std::vector<LayerId>> consumers(model.tensors.size());
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer)
    for (const TensorId tensor : model.needs[static_cast<std::size_t>(layer)].forward)
      consumers[static_cast<std::size_t>(tensor)].push_back(layer);
  return consumers;
}

bool has_gradient(const Model& model, TensorId tensor) {
  const Tensor& t = model.tensors[static_cast<std::size_t>(tensor)];
  if (t.kind != TensorKind::output) return false;
  return std::any_of(model.needs.begin(), model.needs.end(), [&](const LayerNeeds& needs) {
    return std::find(needs.forward.begin(), needs.forward.end(), tensor) != needs.forward.end();
  });
}

std::uint64_t fingerprint(const Model& model) {
  Fnv1a hash;
  hash.add(model.name);
  hash.add(model.classes);
  for (const Layer& layer : model.layers) {
    hash.add(layer.name);
    hash.add(to_string(layer.kind));
    hash.add(layer.description);
    for (const auto* shape : {&layer.input_shape, &layer.output_shape}) {
      hash.add(static_cast<std::int64_t>(shape->size()));
      for (const std::int64_t extent : *shape) hash.add(extent);
    }
    hash.add(layer.kernel);
    hash.add(layer.stride);
    hash.add(layer.padding);
    hash.add(layer.dropout_probability);
    for (const Parameter& parameter : layer.parameters) {
      hash.add(parameter.name);
      for (const std::int64_t extent : parameter.shape) hash.add(extent);
    }
    if (!layer.backward && layer.colocation == kNone) continue;  // fingerprints made before these existed stay
    hash.add(static_cast<std::int64_t>(layer.backward));
    hash.add(static_cast<std::int64_t>(layer.colocation));
  }
  for (const LayerNeeds& needs : model.needs)
    for (const auto* reads : {&needs.forward, &needs.backward_input, &needs.backward_weight}) {
      hash.add(static_cast<std::int64_t>(reads->size()));
      for (const TensorId tensor : *reads) hash.add(static_cast<std::int64_t>(tensor));
    }
  return hash.value();
}

void validate(const Model& model) {
  if (model.layers.empty()) throw bad_input(text("model ", model.name, " has no layers"));
  if (model.needs.size() != model.layers.size())
    throw bad_input(
        text("model ", model.name, " has ", model.layers.size(), " layers but needs of ", model.needs.size()));
  if (model.microbatch < 0)
    throw bad_input(text("model ", model.name, ": micro-batch size ", model.microbatch, " is negative"));
  std::set<std::string> names;
  for (const Layer& layer : model.layers) {
    validate_layer(layer);
    if (!names.insert(layer.name).second) throw bad_input(text("two layers are named ", layer.name));
  }
  for (const Tensor& tensor : model.tensors) {
    const bool from_dataset = tensor.kind == TensorKind::input || tensor.kind == TensorKind::labels;
    require_size("the values of tensor " + tensor.name, tensor.bytes);
    if (tensor.producer < kDataset || tensor.producer >= std::ssize(model.layers) ||
        from_dataset != (tensor.producer == kDataset))
      throw bad_input(text("tensor ", tensor.name, ": producer ", tensor.producer, " does not fit its kind or the ",
                           model.layers.size(), " layers"));
  }
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
    const LayerNeeds& needs = model.needs[static_cast<std::size_t>(layer)];
    validate_reads(model, layer, needs.forward, "forward", false);
    validate_reads(model, layer, needs.backward_input, "backward-input", true);
    validate_reads(model, layer, needs.backward_weight, "backward-weight", true);
  }
  validate_sizes(model);
}

}  // namespace sluice
