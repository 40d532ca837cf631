#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"

namespace sluice {

using LayerId = int;
using TensorId = int;
using Rank = int;

/// Producer of the tensors that come from the dataset, not from a layer.
inline constexpr LayerId kDataset = -1;
inline constexpr int kNone = -1;

enum class ElementType : std::uint8_t { float32, bfloat16, int32, uint8 };
[[nodiscard]] std::int64_t bytes_of(ElementType type);
[[nodiscard]] const char* to_string(ElementType type);

enum class LayerKind : std::uint8_t {
  foreign,  ///< imported costs without kernels: it can be planned, not run
  convolution,
  relu,
  max_pool,
  average_pool,
  linear,
  dropout,
  softmax_cross_entropy,
};
[[nodiscard]] const char* to_string(LayerKind kind);
[[nodiscard]] LayerKind layer_kind_from(const std::string& name);  ///< @throws Error (bad input)

/// One trainable array of a layer, in logical order (convolution: C_out, C_in,
/// KH, KW; linear: F_out, F_in with F_in ordered C, H, W; bias: C_out).
struct Parameter {
  std::string name;  ///< "weight" or "bias"
  Shape shape;
  bool operator==(const Parameter&) const = default;
};

/// What a layer is; attributes that a kind does not use stay zero.
struct Layer {
  std::string name;  ///< unique in its model: "conv1", "fc2"
  LayerKind kind = LayerKind::foreign;
  std::string description;  ///< for people: "Conv2d(64, 128, kernel_size=(3, 3))"
  Shape input_shape;        ///< per sample: (C, H, W) or (F)
  Shape output_shape;
  std::int64_t kernel = 0, stride = 0, padding = 0;  ///< square windows
  double dropout_probability = 0;
  std::vector<Parameter> parameters;
  bool backward = false;   ///< a node of a foreign graph's backward pass, which is a layer of its own there
  int colocation = kNone;  ///< layers with the same number want the same device; kNone: free
  bool operator==(const Layer&) const = default;
};

enum class TensorKind : std::uint8_t {
  input,      ///< network input, from the dataset
  labels,     ///< from the dataset
  output,     ///< a layer's result
  auxiliary,  ///< what a layer's forward leaves for its own backward (pooling indices, probabilities)
};
[[nodiscard]] const char* to_string(TensorKind kind);

/// A tensor of one micro-batch. 4-dimensional tensors lie in memory as N, H, W, C.
struct Tensor {
  std::string name;
  LayerId producer = kDataset;
  TensorKind kind = TensorKind::output;
  ElementType element_type = ElementType::float32;
  std::int64_t bytes = 0;  ///< per micro-batch
  bool operator==(const Tensor&) const = default;
};

/// Which tensors each work of a layer reads. Edges of the DAG follow from
/// `forward`: an edge leads from a tensor's producer to the layer.
/// The gradients of the layer's outputs are needed by both backward works and
/// are not listed.
struct LayerNeeds {
  std::vector<TensorId> forward;
  std::vector<TensorId> backward_input;
  std::vector<TensorId> backward_weight;
  bool operator==(const LayerNeeds&) const = default;
};

/// A network: layers in topological order, the table of its tensors, and who
/// reads what. Values only; kernels live with the devices.
struct Model {
  std::string name;
  std::int64_t microbatch = 0;  ///< samples per micro-batch; 0 if unknown (foreign profiles)
  std::int64_t classes = 0;
  std::vector<Layer> layers;
  std::vector<Tensor> tensors;
  std::vector<LayerNeeds> needs;  ///< one per layer
  bool operator==(const Model&) const = default;
};

/// The most that one tensor, or one layer's parameters, may take [B]: 1 PiB.
/// Sums over layers, micro-batches and ranks then stay far from overflow.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

/// Bytes of one layer's parameters (float32 masters), saturating.
[[nodiscard]] std::int64_t parameter_bytes(const Layer& layer);

/// Tensors that `layer` produces, outputs before auxiliaries.
[[nodiscard]] std::vector<std::vector<TensorId>> tensors_by_producer(const Model& model);

/// Layers whose forward reads each tensor, ascending.
[[nodiscard]] std::vector<std::vector<LayerId>> consumers_by_tensor(const Model& model);

/// True if a gradient with respect to the tensor exists: a layer's output that another layer reads.
[[nodiscard]] bool has_gradient(const Model& model, TensorId tensor);

/// Identity of the architecture (layers, attributes, shapes, needs), independent
/// of micro-batch size and element types. FNV-1a, 64 bits.
[[nodiscard]] std::uint64_t fingerprint(const Model& model);

/// Checks ranges, unique names, one entry of needs per layer, that every tensor
/// is produced before it is read (no cycles), and that the tensors which layers
/// with kernels read and make are as large as the layers' shapes say.
/// @throws Error (bad input) naming layer, tensor and value.
void validate(const Model& model);

}  // namespace sluice
