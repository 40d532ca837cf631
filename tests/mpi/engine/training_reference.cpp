#include "tests/mpi/engine/training_reference.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

#include "core/hash.h"
#include "core/index.h"
#include "core/philox.h"
#include "core/storage/dataset_file.h"
#include "runtime/engine/data_loader.h"
#include "runtime/engine/sample_order.h"
#include "runtime/nn/layer_runtime.h"
#include "runtime/nn/model_builder.h"

namespace sluice {
namespace {

/// Host arrays of one tensor each, and of the gradient with respect to it.
struct HostTensors {
  explicit HostTensors(const Model& model) {
    for (const Tensor& tensor : model.tensors) {
      values.emplace_back(static_cast<std::size_t>(tensor.bytes));
      gradients.emplace_back(static_cast<std::size_t>(tensor.bytes));
    }
  }
  std::vector<std::vector<std::byte>> values, gradients;
};

class PlainTrainer {
 public:
  PlainTrainer(Device& device, const Model& model, const TrainingTask& task)
      : model_(model),
        task_(task),
        data_(task.data, model, task.microbatches),
        stream_(device.create_stream()),
        tensors_(model),
        made_(tensors_by_producer(model)) {
    for (const Layer& layer : model.layers) {
      layers_.push_back(std::make_unique<LayerRuntime>(device, layer, model.microbatch, true));
      layers_.back()->init(*stream_, task.seed);
      workspace_.resize(std::max(workspace_.size(), static_cast<std::size_t>(layers_.back()->workspace_bytes())));
    }
  }

  float step(std::int64_t step) {
    begin_batch(step);
    double loss = 0;
    for (int m = 0; m < task_.microbatches; ++m) loss += microbatch(step, m, task_.microbatches);
    for (const auto& layer : layers_)
      if (layer->masters_bytes() > 0) layer->update(*stream_, task_.sgd);
    return static_cast<float>(loss / static_cast<double>(data_.global_batch()));
  }

  std::vector<float> stretch(std::int64_t first_step, std::int64_t steps, const Staleness& staleness) {
    std::vector<History> histories;
    for (const auto& layer : layers_) histories.push_back({layer->save(*stream_)});
    std::vector<float> losses;
    for (std::int64_t step = first_step; step < first_step + steps; ++step) {
      begin_batch(step);
      double loss = 0;
      for (int m = 0; m < task_.microbatches; ++m) {
        const std::int64_t update = std::ssize(histories[0]) - 1;
        for (std::size_t l = 0; l < layers_.size(); ++l)
          layers_[l]->load(
              *stream_,
              histories[l][static_cast<std::size_t>(std::max<std::int64_t>(0, update - staleness.delays[l]))]);
        loss += microbatch(step, m, staleness.microbatches);
        if ((m + 1) % staleness.microbatches == 0) make_versions(histories);
      }
      losses.push_back(static_cast<float>(loss / static_cast<double>(data_.global_batch())));
    }
    return losses;
  }

  double evaluate() {
    const std::int64_t samples = data_.samples(Split::test);
    double loss = 0;
    for (std::int64_t first = 0; first < samples; first += data_.global_batch()) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(data_.global_batch(), samples - first)));
      std::iota(rows.begin(), rows.end(), first);
      data_.begin_batch(Split::test, rows);
      for (int m = 0; m < task_.microbatches; ++m)
        loss += forward(m, {.valid_samples = data_.valid_samples(m), .training = false});
    }
    return loss / static_cast<double>(samples);
  }

  [[nodiscard]] std::map<std::string, std::vector<float>> weights() {
    std::map<std::string, std::vector<float>> weights;
    for (const auto& layer : layers_) weights[layer->layer().name] = layer->save(*stream_);
    return weights;
  }

 private:
  using History = std::vector<std::vector<float>>;  ///< weights by version

  void begin_batch(std::int64_t step) {
    const auto batch = static_cast<std::size_t>(data_.global_batch());
    const std::int64_t steps_per_epoch = data_.samples(Split::train) / data_.global_batch();
    const std::vector<std::int64_t> order =
        sample_order(data_.samples(Split::train), task_.seed, step / steps_per_epoch);
    data_.begin_batch(Split::train,
                      std::span(order).subspan(static_cast<std::size_t>(step % steps_per_epoch) * batch, batch));
  }

  /// Each layer's next version from its newest with the gradients at hand; the newest is then what is loaded.
  void make_versions(std::vector<History>& histories) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      layers_[l]->load(*stream_, histories[l].back());
      layers_[l]->update(*stream_, task_.sgd);
      histories[l].push_back(layers_[l]->save(*stream_));
    }
  }

  /// Forward and backward; adds to the gradients of the update that `per_update` micro-batches share.
  double microbatch(std::int64_t step, int m, int per_update) {
    const MicrobatchContext context{.seed = task_.seed,
                                    .step = step,
                                    .first_position = m * model_.microbatch,
                                    .valid_samples = model_.microbatch,
                                    .loss_scale = 1.0F / static_cast<float>(per_update * model_.microbatch)};
    const double loss = forward(m, context);
    for (LayerId l = static_cast<LayerId>(layers_.size()) - 1; l >= 0; --l) {
      if (layers_[at(l)]->masters_bytes() > 0)
        layers_[at(l)]->backward_weight(*stream_, memory(l), context, m % per_update == 0);
      if (l > 0) layers_[at(l)]->backward_input(*stream_, memory(l), context);
    }
    return loss;
  }

  double forward(int m, const MicrobatchContext& context) {
    load(m);
    for (LayerId l = 0; l < std::ssize(layers_); ++l) layers_[at(l)]->forward(*stream_, memory(l), context);
    const auto* losses = reinterpret_cast<const float*>(tensors_.values[at(made_.back()[0])].data());
    double sum = 0;
    for (std::int64_t i = 0; i < context.valid_samples; ++i) sum += losses[2 * i];
    return sum;
  }

  void load(int m) {
    for (TensorId t = 0; t < std::ssize(model_.tensors); ++t) {
      std::vector<std::byte>& bytes = tensors_.values[at(t)];
      if (model_.tensors[at(t)].kind == TensorKind::input)
        data_.load_images(m, {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
      if (model_.tensors[at(t)].kind == TensorKind::labels)
        data_.load_labels(m, {reinterpret_cast<std::int32_t*>(bytes.data()), bytes.size() / sizeof(std::int32_t)});
    }
  }

  /// Everything that layer `l` may want.
  LayerMemory memory(LayerId l) {
    LayerMemory memory{.workspace = workspace_.data()};
    for (const TensorId t : model_.needs[at(l)].forward) {
      if (model_.tensors[at(t)].kind == TensorKind::labels) {
        memory.labels = tensors_.values[at(t)].data();
      } else {
        memory.input = tensors_.values[at(t)].data();
        memory.input_gradient = tensors_.gradients[at(t)].data();
      }
    }
    for (const TensorId t : made_[at(l)]) {
      if (model_.tensors[at(t)].kind == TensorKind::auxiliary) {
        memory.auxiliary = tensors_.values[at(t)].data();
      } else {
        memory.output = tensors_.values[at(t)].data();
        memory.output_gradient = tensors_.gradients[at(t)].data();
      }
    }
    return memory;
  }

  const Model& model_;
  TrainingTask task_;
  DataLoader data_;
  std::unique_ptr<Stream> stream_;
  HostTensors tensors_;
  std::vector<std::vector<TensorId>> made_;
  std::vector<std::unique_ptr<LayerRuntime>> layers_;
  std::vector<std::byte> workspace_;
};

LabelledImages random_images(const ImageKind& kind, std::int64_t count, std::uint64_t seed) {
  LabelledImages images;
  const auto word = [&](std::int64_t i, std::uint32_t what) {
    return philox({static_cast<std::uint32_t>(i), what, 0, 0}, philox_key(seed, 0))[0];
  };
  for (std::int64_t i = 0; i < count * kind.image_bytes(); ++i)
    images.images.push_back(static_cast<std::uint8_t>(word(i, 0)));
  for (std::int64_t i = 0; i < count; ++i)
    images.labels.push_back(static_cast<std::int32_t>(word(i, 1) % static_cast<std::uint32_t>(kind.classes)));
  return images;
}

}  // namespace

std::uint64_t hash_of(const std::vector<float>& values) {
  Fnv1a hash;
  hash.add(std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  return hash.value();
}

TrainingOutcome train_plainly(Device& device, const Model& model, const TrainingTask& task) {
  PlainTrainer trainer(device, model, task);
  TrainingOutcome outcome;
  for (std::int64_t step = 0; step < task.steps; ++step) outcome.losses.push_back(trainer.step(step));
  outcome.weights = trainer.weights();
  return outcome;
}

TrainingOutcome train_out_of_date(Device& device, const Model& model, const TrainingTask& task,
                                  const Staleness& staleness) {
  PlainTrainer trainer(device, model, task);
  TrainingOutcome outcome;
  for (const std::int64_t steps : staleness.stretches) {
    const std::vector<float> losses = trainer.stretch(std::ssize(outcome.losses), steps, staleness);
    outcome.losses.insert(outcome.losses.end(), losses.begin(), losses.end());
    outcome.evaluations.push_back(trainer.evaluate());
  }
  outcome.weights = trainer.weights();
  return outcome;
}

void write_random_dataset(const std::string& path, const Model& model, std::int64_t train, std::int64_t test) {
  const std::vector<std::int64_t>& shape = model.layers.front().input_shape;
  const ImageKind kind{.height = shape[1], .width = shape[2], .channels = shape[0], .classes = model.classes};
  write_dataset(path, kind, random_images(kind, train, 1), random_images(kind, test, 2));
}

Model small_model(std::int64_t microbatch) {
  return ModelBuilder("small", {2, 12, 12}, 4, microbatch)
      .convolution("conv1", 5, 3, 1, 1)
      .relu("relu1")
      .max_pool("pool1", 2, 2)
      .convolution("conv2", 6, 3)
      .relu("relu2")
      .average_pool("pool2", 2, 2)
      .dropout("drop1", 0.25)
      .linear("fc1", 16)
      .relu("relu3")
      .dropout("drop2", 0.5)
      .linear("fc2", 9)
      .linear("fc3", 4)
      .softmax_cross_entropy("loss");
}

Profile even_profile(const Model& model) {
  Profile profile;
  profile.model = model;
  for (const Layer& layer : model.layers) {
    LayerCost cost{.forward_s = 1e-4, .backward_input_s = 1e-4, .backward_weight_s = 1e-4};
    cost.parameter_bytes = parameter_bytes(layer);
    profile.costs.push_back(cost);
  }
  return profile;
}

}  // namespace sluice
