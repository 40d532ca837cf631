#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/plan.h"

/// Values in which every field differs from its default, and a folder to write them into.
namespace sluice {

inline Model sample_model() {
  Model model;
  model.name = "sample";
  model.microbatch = 4;
  model.classes = 10;
  model.layers = {{.name = "conv1",
                   .kind = LayerKind::convolution,
                   .description = "Conv2d(1, 6, kernel_size=(5, 5)) \xc3\xbc",
                   .input_shape = {1, 28, 28},
                   .output_shape = {6, 24, 24},
                   .kernel = 5,
                   .stride = 1,
                   .padding = 2,
                   .dropout_probability = 0,
                   .parameters = {{"weight", {6, 1, 5, 5}}, {"bias", {6}}}},
                  {.name = "drop",
                   .kind = LayerKind::dropout,
                   .description = "",
                   .input_shape = {6, 24, 24},
                   .output_shape = {3456},
                   .dropout_probability = 0.25,
                   .parameters = {}},
                  {.name = "loss",
                   .kind = LayerKind::softmax_cross_entropy,
                   .description = "softmax",
                   .input_shape = {3456},
                   .output_shape = {2},
                   .parameters = {},
                   .backward = true,
                   .colocation = 7}};
  model.tensors = {{"images", kDataset, TensorKind::input, ElementType::float32, 12544},
                   {"labels", kDataset, TensorKind::labels, ElementType::int32, 16},
                   {"conv1.output", 0, TensorKind::output, ElementType::bfloat16, 27648},
                   {"drop.output", 1, TensorKind::output, ElementType::float32, 55296},
                   {"loss.probabilities", 2, TensorKind::auxiliary, ElementType::uint8, 160}};
  model.needs = {{{0}, {}, {0}}, {{2}, {2, 3}, {}}, {{3, 1}, {4, 1}, {}}};
  return model;
}

inline Cluster sample_cluster() {
  Cluster cluster;
  cluster.ranks = {{0, 1.5, 1 << 30}, {1, 0.75, kUnlimitedMemory, true}};
  cluster.node_names = {"alpha", "beta"};
  cluster.intra_node = {1e-7, 1e10};
  cluster.inter_node = {2e-6, std::numeric_limits<double>::infinity()};
  cluster.algorithm_costs = {
      {CollectiveKind::multicast, Algorithm::chain, {1e-6, 2e9}, {3e-6, 4e8}, 0.125, true, 65536},
      {CollectiveKind::all_reduce, Algorithm::ring, {5e-6, 6e9}, {7e-6, 8e8}, 0.25}};
  return cluster;
}

inline Profile sample_profile() {
  Profile profile;
  profile.model = sample_model();
  profile.costs = {{1e-3, 2e-3, 3e-3, 1e-5, 2e-5, 3e-5, 4e-5, 624, 1024, 4096, 1.5e6, 0.25, true},
                   {4e-4, 5e-4, 0, 1e-6, 2e-6, 0, 0, 0, 0, 0, 0},
                   {1.0 / 3, 5e-300, 0, 0, 0, 0, 0, 0, 0, 128, 7}};
  profile.split_backward = false;
  profile.device = "host, oneDNN 2.6.3";
  profile.threads = 2;
  profile.concurrent_ranks = 3;
  profile.cluster = sample_cluster();
  return profile;
}

inline Plan sample_plan() {
  Plan plan;
  plan.profile = sample_profile();
  plan.cluster = sample_cluster();
  plan.schedule = "1f1b";
  plan.microbatches = 2;
  plan.compute_type = ElementType::bfloat16;
  plan.boundary_type = ElementType::uint8;
  plan.master_type = ElementType::int32;
  plan.multicast = Algorithm::tree;
  plan.data_reader = 1;
  plan.receive_ahead = 3;
  plan.stages = {{Work::forward, 0, {0}, {0}},
                 {Work::forward, 1, {1, 2}, {1}},
                 {Work::backward, 1, {2}, {1}},
                 {Work::backward_input, 0, {0, 1}, {0, 1}},
                 {Work::backward_weight, 0, {0, 1}, {0}},
                 {Work::recompute, 1, {1}, {1}, true}};
  plan.groups = {{0, {0, 1}}, {1, {0, 1}}};
  plan.transfers = {{Payload::activation, 2, kNone, kNone, 0, 27648, {Algorithm::chain, 4096}, 1e-3},
                    {Payload::gradient, 3, 2, kNone, 1, 55296, {Algorithm::flat, 0}, 0},
                    {Payload::weights, kNone, kNone, 0, 1, 624, {Algorithm::mpi, 0}, 2},
                    {Payload::weight_gradients, kNone, kNone, 0, 1, 624, {Algorithm::ring, 0}, 0}};
  plan.programs = {{"step",
                    {{{Op::load_input, kNone, kNone, 0},
                      {Op::forward, 0, kNone, 0},
                      {Op::multicast_start, kNone, 0, 0},
                      {Op::multicast_wait, kNone, 0, 0}},
                     {{Op::optimizer_step, 4, kNone, kNone}, {Op::all_reduce_start, kNone, 3, kNone, 2}}}},
                   {"evaluate", {{}, {{Op::load_labels, kNone, kNone, 1}}}}};
  plan.method = "dp";
  plan.status = "optimal";
  plan.lower_bound_s = 0.2;
  plan.figures = {.schedule = "1f1b",
                  .cuts = "three",
                  .forward_cuts = "1",
                  .backward_cuts = "2",
                  .weight_cuts = "1",
                  .replicas = "2,1",
                  .workers = 2,
                  .recomputed_layers = 1,
                  .microbatch = 4,
                  .microbatches = 3,
                  .bottleneck_s = 0.25,
                  .bound_by = "NIC of node0",
                  .step_s = 0.5,
                  .peak_memory_bytes = 7};
  plan.runners_up = {{.schedule = "gpipe", .cuts = "joint", .workers = 1, .bottleneck_s = 0.5},
                     {.cuts = "joint", .step_s = 1}};
  plan.options = {{"schedule", "1f1b"}, {"objective", ""}};
  return plan;
}

/// An empty folder that goes with its owner.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Names inside, to see that nothing was left behind.
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace sluice
