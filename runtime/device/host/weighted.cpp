#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "core/text.h"
#include "runtime/device/host/kernels.h"

namespace sluice {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

// Parts of the workspace and of the packed weights start on cache lines.
std::int64_t aligned(std::size_t bytes) { return (static_cast<std::int64_t>(bytes) + 63) / 64 * 64; }

/// A layer with weight and bias as oneDNN sees it. Activations lie plainly (nhwc, nc), so
/// that their bytes are the same whoever produces or receives them; only the
/// weights take the layout that each primitive likes best.
struct WeightedPrimitives {
  dnnl::primitive forward, backward_input, backward_weight;
  memory::desc input, output, bias;
  memory::desc weights;  ///< masters and gradients: oihw, oi
  memory::desc forward_weights, backward_input_weights, weight_gradient;
  std::int64_t scratchpad_bytes = 0;
};

/// Layouts that the shapes alone decide.
WeightedPrimitives describe(const Layer& layer, std::int64_t microbatch) {
  const auto f32 = memory::data_type::f32;
  const bool image = layer.input_shape.size() == 3;
  const auto batched = [&](memory::dims shape) {
    shape.insert(shape.begin(), microbatch);
    return shape;
  };
  // A linear layer on an image: weights (F_out, C, H, W), which is F_in in C, H, W order.
  memory::dims weights = layer.parameters[0].shape;
  if (layer.kind == LayerKind::linear && image) {
    weights = layer.input_shape;
    weights.insert(weights.begin(), layer.output_shape[0]);
  }
  WeightedPrimitives result;
  result.input = {batched(layer.input_shape), f32, image ? Tag::nhwc : Tag::nc};
  result.output = {batched(layer.output_shape), f32, layer.output_shape.size() == 3 ? Tag::nhwc : Tag::nc};
  result.bias = {layer.parameters[1].shape, f32, Tag::a};
  result.weights = {weights, f32, image ? Tag::oihw : Tag::oi};
  return result;
}

/// Creates the three primitives of one kind; `make_*` fill oneDNN's operation descriptors.
template <typename Forward, typename BackwardInput, typename BackwardWeight>
void create(WeightedPrimitives& all, const dnnl::engine& engine, const typename Forward::desc& forward_desc,
            const typename BackwardInput::desc& backward_input_desc,
            const typename BackwardWeight::desc& backward_weight_desc) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const typename Forward::primitive_desc forward(forward_desc, attributes, engine);
  const typename BackwardInput::primitive_desc backward_input(backward_input_desc, attributes, engine, forward);
  const typename BackwardWeight::primitive_desc backward_weight(backward_weight_desc, attributes, engine, forward);
  all.forward = Forward(forward);
  all.backward_input = BackwardInput(backward_input);
  all.backward_weight = BackwardWeight(backward_weight);
  all.forward_weights = forward.weights_desc();
  all.backward_input_weights = backward_input.weights_desc();
  all.weight_gradient = backward_weight.diff_weights_desc();
  for (const memory::desc& scratchpad :
       {forward.scratchpad_desc(), backward_input.scratchpad_desc(), backward_weight.scratchpad_desc()})
    all.scratchpad_bytes = std::max(all.scratchpad_bytes, aligned(scratchpad.get_size()));
}

WeightedPrimitives create_convolution(const dnnl::engine& engine, const Layer& layer, std::int64_t microbatch) {
  WeightedPrimitives all = describe(layer, microbatch);
  const memory::desc any(all.weights.dims(), memory::data_type::f32, Tag::any);
  const memory::dims strides{layer.stride, layer.stride}, padding{layer.padding, layer.padding};
  const auto direct = dnnl::algorithm::convolution_direct;
  create<dnnl::convolution_forward, dnnl::convolution_backward_data, dnnl::convolution_backward_weights>(
      all, engine,
      {dnnl::prop_kind::forward_training, direct, all.input, any, all.bias, all.output, strides, padding, padding},
      {direct, all.input, any, all.output, strides, padding, padding},
      {direct, all.input, any, all.bias, all.output, strides, padding, padding});
  return all;
}

WeightedPrimitives create_linear(const dnnl::engine& engine, const Layer& layer, std::int64_t microbatch) {
  WeightedPrimitives all = describe(layer, microbatch);
  const memory::desc any(all.weights.dims(), memory::data_type::f32, Tag::any);
  create<dnnl::inner_product_forward, dnnl::inner_product_backward_data, dnnl::inner_product_backward_weights>(
      all, engine, {dnnl::prop_kind::forward_training, all.input, any, all.bias, all.output},
      {all.input, any, all.output}, {all.input, any, all.bias, all.output});
  return all;
}

class Weighted : public LayerKernel {
 public:
  Weighted(const dnnl::engine& engine, WeightedPrimitives primitives)
      : all_(std::move(primitives)),
        engine_(engine),
        stream_(engine),
        pack_forward_(reorder(all_.weights, all_.forward_weights)),
        pack_backward_input_(reorder(all_.weights, all_.backward_input_weights)),
        store_gradient_(reorder(all_.weight_gradient, all_.weights)),
        add_gradient_(reorder(all_.weight_gradient, all_.weights, true)) {}

  // The workspace: [scratchpad | weight gradient | bias gradient].
  [[nodiscard]] std::int64_t workspace_bytes() const override {
    return bias_gradient_offset() + aligned(all_.bias.get_size());
  }
  // Packed: [bias | forward's weights | backward-input's, unless they have the same layout].
  [[nodiscard]] std::int64_t packed_bytes() const override {
    return backward_input_offset() + (shared_layout() ? 0 : aligned(all_.backward_input_weights.get_size()));
  }

  void pack(Stream&, std::span<const float* const> parameters, void* packed) override {
    packed_ = static_cast<std::byte*>(packed);
    memory weights = wrap(all_.weights, parameters[0]);
    memory forward = forward_weights(), backward_input = backward_input_weights();
    pack_forward_.execute(stream_, weights, forward);
    if (!shared_layout()) pack_backward_input_.execute(stream_, weights, backward_input);
    std::copy_n(parameters[1], all_.bias.dims()[0], reinterpret_cast<float*>(packed_));
  }

  void forward(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    all_.forward.execute(stream_, {{DNNL_ARG_SRC, wrap(all_.input, memory.input)},
                                   {DNNL_ARG_WEIGHTS, forward_weights()},
                                   {DNNL_ARG_BIAS, wrap(all_.bias, packed_)},
                                   {DNNL_ARG_DST, wrap(all_.output, memory.output)},
                                   {DNNL_ARG_SCRATCHPAD, scratchpad(all_.forward, memory)}});
  }

  void backward_input(Stream&, const LayerMemory& memory, const MicrobatchContext&) override {
    all_.backward_input.execute(stream_, {{DNNL_ARG_DIFF_DST, wrap(all_.output, memory.output_gradient)},
                                          {DNNL_ARG_WEIGHTS, backward_input_weights()},
                                          {DNNL_ARG_DIFF_SRC, wrap(all_.input, memory.input_gradient)},
                                          {DNNL_ARG_SCRATCHPAD, scratchpad(all_.backward_input, memory)}});
  }

  // oneDNN overwrites, so the micro-batch's gradient is made in the workspace and then added.
  void backward_weight(Stream&, const LayerMemory& memory, const MicrobatchContext&, std::span<float* const> gradients,
                       bool first) override {
    auto* const workspace = static_cast<std::byte*>(memory.workspace);
    dnnl::memory weight_gradient = wrap(all_.weight_gradient, workspace + all_.scratchpad_bytes);
    auto* const bias_gradient = reinterpret_cast<float*>(workspace + bias_gradient_offset());
    all_.backward_weight.execute(stream_, {{DNNL_ARG_SRC, wrap(all_.input, memory.input)},
                                           {DNNL_ARG_DIFF_DST, wrap(all_.output, memory.output_gradient)},
                                           {DNNL_ARG_DIFF_WEIGHTS, weight_gradient},
                                           {DNNL_ARG_DIFF_BIAS, wrap(all_.bias, bias_gradient)},
                                           {DNNL_ARG_SCRATCHPAD, scratchpad(all_.backward_weight, memory)}});
    dnnl::memory sum = wrap(all_.weights, gradients[0]);
    (first ? store_gradient_ : add_gradient_).execute(stream_, weight_gradient, sum);
    for (std::int64_t i = 0; i < all_.bias.dims()[0]; ++i)
      gradients[1][i] = (first ? 0 : gradients[1][i]) + bias_gradient[i];
  }

 private:
  [[nodiscard]] bool shared_layout() const { return all_.forward_weights == all_.backward_input_weights; }
  [[nodiscard]] std::int64_t forward_offset() const { return aligned(all_.bias.get_size()); }
  [[nodiscard]] std::int64_t backward_input_offset() const {
    return forward_offset() + aligned(all_.forward_weights.get_size());
  }
  [[nodiscard]] memory forward_weights() const { return wrap(all_.forward_weights, packed_ + forward_offset()); }
  [[nodiscard]] memory backward_input_weights() const {
    return shared_layout() ? forward_weights() : wrap(all_.backward_input_weights, packed_ + backward_input_offset());
  }
  [[nodiscard]] std::int64_t bias_gradient_offset() const {
    return all_.scratchpad_bytes + aligned(all_.weight_gradient.get_size());
  }

  /// oneDNN wants mutable pointers even where it only reads.
  [[nodiscard]] memory wrap(const memory::desc& description, const void* data) const {
    return {description, engine_, const_cast<void*>(data)};
  }
  [[nodiscard]] memory scratchpad(const dnnl::primitive& primitive, const LayerMemory& memory) const {
    dnnl::memory::desc description(
        *dnnl_primitive_desc_query_md(primitive.get_primitive_desc(), dnnl_query_scratchpad_md, 0));
    return wrap(description, memory.workspace);
  }
  [[nodiscard]] dnnl::reorder reorder(const memory::desc& from, const memory::desc& to, bool add = false) const {
    dnnl::primitive_attr attributes;
    dnnl::post_ops sum;
    sum.append_sum();
    if (add) attributes.set_post_ops(sum);
    return dnnl::reorder(dnnl::reorder::primitive_desc(engine_, from, engine_, to, attributes));
  }

  WeightedPrimitives all_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::byte* packed_ = nullptr;
  dnnl::reorder pack_forward_, pack_backward_input_, store_gradient_, add_gradient_;
};

}  // namespace

std::unique_ptr<LayerKernel> create_weighted(const dnnl::engine& engine, const Layer& layer, std::int64_t microbatch) {
  try {
    const auto create = layer.kind == LayerKind::convolution ? create_convolution : create_linear;
    return std::make_unique<Weighted>(engine, create(engine, layer, microbatch));
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory)
      throw runtime_fault(text("layer ", layer.name, ": no memory for its kernels"));
    throw bad_input(text("layer ", layer.name, ": oneDNN has no kernel for it (", error.what(), ")"));
  }
}

}  // namespace sluice
