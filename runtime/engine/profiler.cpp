#include "runtime/engine/profiler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/hash.h"
#include "core/philox.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/clock.h"
#include "runtime/nn/layer_runtime.h"
#include "runtime/nn/model_builder.h"

namespace sluice {
namespace {

enum Quantity : std::size_t { kForward, kBackwardInput, kBackwardWeight, kUpdate, kQuantities };

/// One number per layer and quantity, layer by layer.
using Figures = std::vector<std::array<double, kQuantities>>;

/// The value below which `share` of the sorted values lie, interpolated between neighbours: of two
/// ranks neither alone is to decide.
double interpolated(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

/// A whole model on one device: a buffer per tensor and one per gradient.
class Sweeper {
 public:
  Sweeper(Device& device, const Model& model)
      : device_(device), model_(model), made_(tensors_by_producer(model)), stream_(device.create_stream()) {
    std::int64_t workspace = 0;
    for (const Layer& layer : model.layers) {
      layers_.emplace_back(std::make_unique<LayerRuntime>(device, layer, model.microbatch, true));
      layers_.back()->init(*stream_, 0);
      workspace = std::max(workspace, layers_.back()->workspace_bytes());
    }
    workspace_ = device.allocate(workspace);
    for (TensorId t = 0; t < std::ssize(model.tensors); ++t) {
      values_.push_back(device.allocate(tensor(t).bytes));
      gradients_.push_back(device.allocate(has_gradient(model, t) ? tensor(t).bytes : 0));
    }
  }

  /// One micro-batch forward and backward, and the update [s].
  Figures sweep() {
    fill_inputs();
    Figures figures(model_.layers.size());
    for (std::size_t layer = 0; layer < layers_.size(); ++layer)
      figures[layer][kForward] = time([&] { layers_[layer]->forward(*stream_, memory(layer), context()); });
    for (std::size_t layer = layers_.size(); layer-- > 0;) {
      const LayerMemory bound = memory(layer);
      const bool trains = layers_[layer]->masters_bytes() > 0;
      if (trains)
        figures[layer][kBackwardWeight] =
            time([&] { layers_[layer]->backward_weight(*stream_, bound, context(), false); });
      if (bound.input_gradient != nullptr)
        figures[layer][kBackwardInput] = time([&] { layers_[layer]->backward_input(*stream_, bound, context()); });
      // A learning rate of 0: the same work, and weights that stay as they are.
      if (trains) figures[layer][kUpdate] = time([&] { layers_[layer]->update(*stream_, {.learning_rate = 0}); });
    }
    return figures;
  }

  [[nodiscard]] const LayerRuntime& layer(std::size_t index) const { return *layers_[index]; }

 private:
  [[nodiscard]] const Tensor& tensor(TensorId t) const { return model_.tensors[static_cast<std::size_t>(t)]; }

  /// New values in every sweep: branches that learn the old ones by heart would make layers look fast.
  void fill_inputs() {
    ++sweeps_;
    const PhiloxKey key = philox_key(0, fnv1a("profile input"));
    for (TensorId t = 0; t < std::ssize(model_.tensors); ++t) {
      if (tensor(t).producer != kDataset) continue;
      const std::size_t count = static_cast<std::size_t>(tensor(t).bytes) / 4;
      std::vector<float> pixels(count);
      std::vector<std::int32_t> labels(count);
      for (std::size_t i = 0; i < count; ++i) {
        const PhiloxCounter counter{static_cast<std::uint32_t>(i), sweeps_, static_cast<std::uint32_t>(i >> 32), 0};
        pixels[i] = 2 * uniform01(philox(counter, key)[0]) - 1;
        labels[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(model_.classes));
      }
      const void* source = tensor(t).kind == TensorKind::labels ? static_cast<const void*>(labels.data())
                                                                : static_cast<const void*>(pixels.data());
      device_.copy(*stream_, values_[static_cast<std::size_t>(t)].data(), source, tensor(t).bytes);
      stream_->record().wait();
    }
  }

  [[nodiscard]] MicrobatchContext context() const {
    return {.valid_samples = model_.microbatch, .loss_scale = 1.0F / static_cast<float>(model_.microbatch)};
  }

  [[nodiscard]] LayerMemory memory(std::size_t layer) const {
    LayerMemory bound{.workspace = workspace_.data()};
    for (const TensorId t : model_.needs[layer].forward) {
      const auto index = static_cast<std::size_t>(t);
      if (tensor(t).kind == TensorKind::labels) {
        bound.labels = values_[index].data();
      } else {
        bound.input = values_[index].data();
        bound.input_gradient = has_gradient(model_, t) ? gradients_[index].data() : nullptr;
      }
    }
    for (const TensorId t : made_[layer]) {
      const auto index = static_cast<std::size_t>(t);
      if (tensor(t).kind == TensorKind::auxiliary) {
        bound.auxiliary = values_[index].data();
      } else {
        bound.output = values_[index].data();
        bound.output_gradient = has_gradient(model_, t) ? gradients_[index].data() : nullptr;
      }
    }
    return bound;
  }

  template <typename Work>
  double time(const Work& work) {
    const std::int64_t begin = clock_.now_ns();
    work();
    stream_->record().wait();
    return static_cast<double>(clock_.now_ns() - begin) * 1e-9;
  }

  Device& device_;
  const Model& model_;
  StepClock clock_;
  std::uint32_t sweeps_ = 0;
  std::vector<std::vector<TensorId>> made_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<LayerRuntime>> layers_;
  std::vector<Buffer> values_, gradients_;  ///< by tensor
  Buffer workspace_;
};

/// Median and interquartile range per layer and quantity, flat, so that they can be gathered.
std::vector<double> summarise(const std::vector<Figures>& sweeps) {
  std::vector<double> summary;
  for (std::size_t layer = 0; layer < sweeps[0].size(); ++layer)
    for (std::size_t quantity = 0; quantity < kQuantities; ++quantity) {
      std::vector<double> samples;
      for (const Figures& figures : sweeps) samples.push_back(figures[layer][quantity]);
      std::sort(samples.begin(), samples.end());
      summary.push_back(interpolated(samples, 0.5));
      summary.push_back(interpolated(samples, 0.75) - interpolated(samples, 0.25));
    }
  return summary;
}

std::vector<double> median_over_ranks(Communicator& comm, const std::vector<double>& mine) {
  const std::vector<double> all = comm.all_gather(mine);
  std::vector<double> medians;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    std::vector<double> samples;
    for (std::size_t j = i; j < all.size(); j += mine.size()) samples.push_back(all[j]);
    std::sort(samples.begin(), samples.end());
    medians.push_back(interpolated(samples, 0.5));
  }
  return medians;
}

int most_ranks_on_a_node(const Communicator& comm) {
  std::vector<int> ranks(comm.node_names().size(), 0);
  for (const int node : comm.node_of_rank()) ++ranks[static_cast<std::size_t>(node)];
  return *std::max_element(ranks.begin(), ranks.end());
}

}  // namespace

Profile measure_profile(Communicator& comm, Device& device, const Model& model, const ProfilerSettings& settings) {
  std::optional<Sweeper> sweeper;
  collectively(comm, [&] { sweeper.emplace(device, model); });
  std::vector<Figures> sweeps;
  for (int i = 0; i < settings.warm_up + settings.repeats; ++i) {
    comm.barrier();
    Figures figures = sweeper->sweep();
    if (i >= settings.warm_up) sweeps.push_back(std::move(figures));
  }
  const std::vector<double> figures = median_over_ranks(comm, summarise(sweeps));

  Profile profile;
  profile.model = model;
  profile.device = device.fingerprint();
  profile.threads = settings.threads;
  profile.concurrent_ranks = most_ranks_on_a_node(comm);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    const double* own = &figures[layer * kQuantities * 2];
    profile.costs.push_back({.forward_s = own[2 * kForward],
                             .backward_input_s = own[2 * kBackwardInput],
                             .backward_weight_s = own[2 * kBackwardWeight],
                             .forward_spread_s = own[2 * kForward + 1],
                             .backward_input_spread_s = own[2 * kBackwardInput + 1],
                             .backward_weight_spread_s = own[2 * kBackwardWeight + 1],
                             .update_s = own[2 * kUpdate],
                             .parameter_bytes = parameter_bytes(model.layers[layer]),
                             .packed_bytes = sweeper->layer(layer).packed_bytes(),
                             .workspace_bytes = sweeper->layer(layer).workspace_bytes(),
                             .flops = flops(model.layers[layer]) * static_cast<double>(model.microbatch)});
  }
  return profile;
}

}  // namespace sluice
