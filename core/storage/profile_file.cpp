#include "core/storage/profile_file.h"

#include <algorithm>

#include "core/index.h"
#include "core/storage/cluster_file.h"
#include "core/storage/in_file.h"
#include "core/storage/table.h"
#include "core/text.h"

namespace sluice {
namespace {

template <typename Table>
void layer_columns(Table table) {
  table.string("name", &Layer::name, "unique name");
  table.choice("kind", &Layer::kind, LayerKind::softmax_cross_entropy, "what the layer computes");
  table.string("description", &Layer::description, "for people");
  table.list("input_shape", &Layer::input_shape, {"1", "extents per sample: C, H, W or F"});
  table.list("output_shape", &Layer::output_shape, {"1", "extents per sample: C, H, W or F"});
  table.number("kernel", &Layer::kernel, {"1", "extent of a square window; 0 without one"});
  table.number("stride", &Layer::stride, {"1", "stride of the window"});
  table.number("padding", &Layer::padding, {"1", "padding on each side"});
  table.number("dropout_probability", &Layer::dropout_probability, {"1", "probability that a value is dropped"});
  table.later_number("backward", &Layer::backward, {"1", "1: node of a foreign graph's backward pass; missing: 0"});
  table.later_number("colocation", &Layer::colocation, {"1", "equal numbers want one device; -1 or missing: free"});
}

/// Parameters of all layers, in one table.
struct ParameterRow {
  LayerId layer = 0;
  Parameter parameter;
};

template <typename Table>
void parameter_columns(Table table) {
  table.number("layer", &ParameterRow::layer, {"1", "row of the layer in layers"});
  table.string(
      "name", [](auto& row) -> auto& { return row.parameter.name; }, "weight or bias");
  table.list("shape", [](auto& row) -> auto& { return row.parameter.shape; }, {"1", "extents, row-major"});
}

template <typename Table>
void tensor_columns(Table table) {
  table.string("name", &Tensor::name, "for people");
  table.number("producer", &Tensor::producer, {"1", "row of the layer that makes it; -1 the dataset"});
  table.choice("kind", &Tensor::kind, TensorKind::auxiliary, "role in the network");
  table.choice("element_type", &Tensor::element_type, ElementType::uint8, "type of its elements");
  table.number("bytes", &Tensor::bytes, {"B", "size per micro-batch"});
}

template <typename Table>
void needs_columns(Table table) {
  table.list("forward", &LayerNeeds::forward, {"1", "tensors that the layer's forward reads"});
  table.list("backward_input", &LayerNeeds::backward_input, {"1", "tensors that its backward-input reads"});
  table.list("backward_weight", &LayerNeeds::backward_weight, {"1", "tensors that its backward-weight reads"});
}

template <typename Table>
void cost_columns(Table table) {
  const std::string spread = "interquartile range of ";
  table.number("forward_s", &LayerCost::forward_s, {"s", "forward per micro-batch, median"});
  table.number("backward_input_s", &LayerCost::backward_input_s,
               {"s", "backward-input per micro-batch, median; all of backward if split_backward is 0"});
  table.number("backward_weight_s", &LayerCost::backward_weight_s, {"s", "backward-weight per micro-batch, median"});
  table.number("forward_spread_s", &LayerCost::forward_spread_s, {"s", spread + "forward_s"});
  table.number("backward_input_spread_s", &LayerCost::backward_input_spread_s, {"s", spread + "backward_input_s"});
  table.number("backward_weight_spread_s", &LayerCost::backward_weight_spread_s, {"s", spread + "backward_weight_s"});
  table.number("update_s", &LayerCost::update_s, {"s", "weight update, once per step"});
  table.number("parameter_bytes", &LayerCost::parameter_bytes, {"B", "float32 masters"});
  table.number("packed_bytes", &LayerCost::packed_bytes,
               {"B", "memory beside the parameters, as copies of the weights in the kernels' layouts"});
  table.number("workspace_bytes", &LayerCost::workspace_bytes, {"B", "scratch during one call"});
  table.number("flops", &LayerCost::flops, {"1", "operations of forward per micro-batch; 0 if unknown"});
  table.later_number("host_s", &LayerCost::host_s,
                     {"s", "forward per micro-batch on a host CPU; 0 or missing: unknown"});
  table.later_number("host_only", &LayerCost::host_only, {"1", "1: accelerators cannot run it; missing: 0"});
}

std::vector<ParameterRow> parameter_rows(const Model& model) {
  std::vector<ParameterRow> rows;
  for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer)
    for (const Parameter& parameter : model.layers[at(layer)].parameters) rows.push_back({layer, parameter});
  return rows;
}

void add_parameters(const GroupReader& group, Model& model) {
  std::vector<ParameterRow> rows;
  parameter_columns(TableReader(group, "parameters", rows));
  for (const ParameterRow& row : rows) {
    if (row.layer < 0 || row.layer >= std::ssize(model.layers))
      group.refuse("parameters/layer", text("holds ", row.layer, ", but there are ", model.layers.size(), " layers"));
    model.layers[at(row.layer)].parameters.push_back(row.parameter);
  }
}

void write_model(const GroupWriter& group, const Model& model) {
  group.attribute("name", model.name);
  group.attribute("microbatch", model.microbatch);
  group.attribute("classes", model.classes);
  group.attribute("fingerprint", hexadecimal(fingerprint(model)));
  layer_columns(TableWriter(group, "layers", model.layers));
  parameter_columns(TableWriter(group, "parameters", parameter_rows(model)));
  tensor_columns(TableWriter(group, "tensors", model.tensors));
  needs_columns(TableWriter(group, "needs", model.needs));
}

Model read_model(const GroupReader& group) {
  Model model;
  model.name = group.text_attribute("name");
  model.microbatch = group.integer_attribute<std::int64_t>("microbatch");
  model.classes = group.integer_attribute<std::int64_t>("classes");
  layer_columns(TableReader(group, "layers", model.layers));
  add_parameters(group, model);
  tensor_columns(TableReader(group, "tensors", model.tensors));
  needs_columns(TableReader(group, "needs", model.needs));
  require_identity(group, "fingerprint", fingerprint(model));
  return model;
}

}  // namespace

void write_profile(const GroupWriter& group, const Profile& profile) {
  group.attribute("split_backward", profile.split_backward);
  group.attribute("device", profile.device);
  group.attribute("threads", profile.threads);
  group.attribute("concurrent_ranks", profile.concurrent_ranks);
  write_model(group.group("model"), profile.model);
  cost_columns(TableWriter(group, "costs", profile.costs));
  if (profile.cluster) write_cluster(group.group("cluster"), *profile.cluster);
}

Profile read_profile(const GroupReader& group) {
  Profile profile;
  profile.split_backward = group.integer_attribute<bool>("split_backward");
  profile.device = group.text_attribute("device");
  profile.threads = group.integer_attribute<int>("threads");
  profile.concurrent_ranks = group.integer_attribute<int>("concurrent_ranks");
  profile.model = read_model(group.group("model"));
  cost_columns(TableReader(group, "costs", profile.costs));
  if (group.has("cluster")) profile.cluster = read_cluster(group.group("cluster"));
  return profile;
}

void write_profile(const std::string& path, const Profile& profile, const Provenance& provenance) {
  in_file(path, [&] { validate(profile); });
  FileWriter file(path, kProfileSchema, provenance);
  write_profile(file.root(), profile);
  file.commit();
}

Profile read_profile(const std::string& path) {
  Profile profile = read_profile(FileReader(path, kProfileSchema).root());
  in_file(path, [&] { validate(profile); });
  return profile;
}

}  // namespace sluice
