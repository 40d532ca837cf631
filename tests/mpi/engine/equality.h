#pragma once

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/index.h"
#include "core/liveness.h"
#include "core/simulator.h"
#include "core/text.h"
#include "core/verifier.h"
#include "optimizer/schedule/build_plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/host/host_device.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/loss.h"
#include "runtime/engine/sample_order.h"
#include "runtime/engine/support.h"
#include "tests/mpi/engine/training_reference.h"

namespace sluice {

struct Cuts {
  const char* name;
  int shift;  ///< forward cuts lie later by it, backward cuts earlier
};
inline constexpr Cuts kCuts[] = {{"joint", 0}, {"forward ahead", 2}, {"backward ahead", -2}};

inline std::vector<int> bounds(int layers, int workers, int shift) {
  std::vector<int> bounds{0};
  for (int k = 1; k < workers; ++k) bounds.push_back(std::clamp(layers * k / workers + shift, 0, layers));
  bounds.push_back(layers);
  return bounds;
}

inline std::vector<LayerId> interval(int begin, int end) {
  std::vector<LayerId> layers(at(end - begin));
  std::iota(layers.begin(), layers.end(), begin);
  return layers;
}

/// Adds a stage for each interval that is not empty; position k has the owners k, or the given ones.
inline void append(std::vector<Stage>& stages, Work work, const std::vector<int>& bounds,
                   const std::vector<std::vector<Rank>>& owners = {}) {
  for (int k = 0; k + 1 < std::ssize(bounds); ++k)
    if (bounds[at(k)] < bounds[at(k + 1)])
      stages.push_back(
          {work, k, interval(bounds[at(k)], bounds[at(k + 1)]), owners.empty() ? std::vector<Rank>{k} : owners[at(k)]});
}

/// What runs again before a backward(-input): all its layers (share 1), every second one (2), ...
inline std::vector<Stage> with_recomputes(std::vector<Stage> stages, int share) {
  for (const Stage& stage : std::vector<Stage>(stages)) {
    if (stage.work != Work::backward && stage.work != Work::backward_input) continue;
    Stage again{Work::recompute, stage.index, {}, stage.owners};
    for (const LayerId layer : stage.layers)
      if (layer % share == 0) again.layers.push_back(layer);
    if (!again.layers.empty()) stages.push_back(again);
  }
  return stages;
}

/// Trains plans and the oracle side by side, under mpiexec.
class Equality : public testing::Test {
 protected:
  Equality() {
    omp_set_num_threads(1);
    host_ = create_host_device();
  }
  ~Equality() override {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::remove(data_);
  }

  void use(const Model& model, std::int64_t samples) {
    data_ = world_.broadcast(text("/tmp/sluice-equality-", getpid(), ".h5"));
    if (world_.rank() == 0) write_random_dataset(data_, model, samples, 8);
    world_.barrier();
    profile_ = even_profile(model);
    for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
      const auto kernel = host_->create_kernel(model.layers[layer], model.microbatch);
      profile_.costs[layer].packed_bytes = kernel->packed_bytes();
      profile_.costs[layer].workspace_bytes = kernel->workspace_bytes();
    }
  }

  [[nodiscard]] int layers() const { return static_cast<int>(profile_.model.layers.size()); }

  /// The oracle's outcome: computed on rank 0, known everywhere.
  const TrainingOutcome& reference(const TrainingTask& task) {
    const auto [known, is_new] = references_.try_emplace({task.microbatches, task.steps});
    TrainingOutcome& outcome = known->second;
    if (!is_new) return outcome;
    if (world_.rank() == 0) outcome = train_plainly(*host_, profile_.model, task);
    outcome.losses.resize(at(static_cast<int>(task.steps)));
    share(outcome.losses);
    for (const Layer& layer : profile_.model.layers) {
      outcome.weights[layer.name].resize(static_cast<std::size_t>(parameter_bytes(layer)) / sizeof(float));
      share(outcome.weights[layer.name]);
    }
    return outcome;
  }

  /// Rank 0's values to all.
  void share(std::vector<float>& values) {
    if (values.empty()) return;
    std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    bytes = world_.broadcast(bytes);
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }

  static std::string to_text(const TrainingOutcome& outcome) {
    std::string lines;
    for (const float loss : outcome.losses) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, "loss %a\n", static_cast<double>(loss));
      lines += buffer;
    }
    for (const auto& [layer, values] : outcome.weights) lines += text(layer, ' ', hash_of(values), '\n');
    return lines;
  }

  Plan plan(const std::string& schedule, int microbatches, const std::vector<Stage>& stages,
            Algorithm algorithm = Algorithm::hierarchical) {
    Cluster cluster;
    for (const int node : world_.node_of_rank()) cluster.ranks.push_back({.node = node});
    cluster.node_names = world_.node_names();
    return build_plan({.profile = profile_,
                       .cluster = cluster,
                       .schedule = schedule,
                       .microbatches = microbatches,
                       .stages = stages,
                       .multicast = algorithm,
                       .data_reader = data_reader_});
  }

  /// Where one rank reads the data for all, the others have no file.
  std::unique_ptr<DataLoader> open(const std::string& path, const Plan& plan) {
    const bool reads = plan.data_reader == kNone || plan.data_reader == world_.rank();
    return open_data(world_, reads ? path : "/no/such/folder/data.h5", plan);
  }

  std::vector<Stage> shifted(int workers, int shift) {
    std::vector<Stage> stages;
    append(stages, Work::forward, bounds(layers(), workers, shift));
    append(stages, Work::backward, bounds(layers(), workers, -shift));
    return stages;
  }

  /// Runs the plan and compares bytes and memory with what it promises.
  /// @return the losses, and the weights of the layers that this rank runs
  TrainingOutcome train(const Plan& plan, const TrainingTask& task, Device& device) {
    EXPECT_FALSE(verify(plan)) << to_string(*verify(plan));
    require_executable(plan);
    const StepClock clock;
    const std::unique_ptr<DataLoader> loader = open(task.data, plan);
    DataLoader& data = *loader;
    Executor executor(plan, device, world_, data, clock, {task.seed, task.sgd});
    executor.initialise();
    EXPECT_EQ(executor.allocated_bytes(), memory_use(plan, world_.rank()).total());
    const RankTimeline predicted = simulate(plan).ranks[at(world_.rank())];
    const std::vector<std::int64_t> order = sample_order(data.samples(Split::train), task.seed, 0);
    TrainingOutcome outcome;
    for (std::int64_t step = 0; step < task.steps; ++step) {
      const auto batch = static_cast<std::size_t>(data.global_batch());
      data.begin_batch(Split::train, std::span(order).subspan(static_cast<std::size_t>(step) * batch, batch));
      const ProgramRun run = executor.run(program(plan, "step"), {.step = step});
      EXPECT_EQ(run.timeline.sent_bytes, predicted.sent_bytes);
      EXPECT_EQ(run.timeline.received_bytes, predicted.received_bytes);
      const BatchLoss loss = agree_on_loss(world_, run.losses, plan.microbatches);
      outcome.losses.push_back(static_cast<float>(loss.sum / static_cast<double>(batch)));
    }
    for (auto& [id, values] : executor.weights())
      outcome.weights[plan.profile.model.layers[at(id)].name] = std::move(values);
    world_.barrier();
    return outcome;
  }

  /// The loss of one batch after one step, bit for bit.
  double evaluated(const Plan& plan, const TrainingTask& task) {
    const StepClock clock;
    const std::unique_ptr<DataLoader> loader = open(task.data, plan);
    DataLoader& data = *loader;
    Executor executor(plan, *host_, world_, data, clock, {task.seed, task.sgd});
    executor.initialise();
    std::vector<std::int64_t> batch(static_cast<std::size_t>(data.global_batch()));
    std::iota(batch.begin(), batch.end(), 0);
    double loss = 0;
    for (const char* name : {"step", "evaluate"}) {
      data.begin_batch(Split::train, batch);
      const ProgramRun run = executor.run(program(plan, name), {.training = name == std::string("step")});
      loss = agree_on_loss(world_, run.losses, plan.microbatches).sum;
    }
    world_.barrier();
    return loss;
  }

  /// Bit for bit, at all ranks.
  void expect_equal(const Plan& plan, const TrainingTask& task, Device& device) {
    const TrainingOutcome outcome = train(plan, task, device);
    TrainingOutcome expected = reference(task);
    std::erase_if(expected.weights, [&](const auto& layer) { return !outcome.weights.contains(layer.first); });
    EXPECT_EQ(to_text(outcome), to_text(expected));
  }

  void expect_all_equal(const std::vector<int>& workers, const std::vector<int>& microbatches, Device& device,
                        Algorithm algorithm) {
    for (const int m : microbatches)
      for (const char* schedule : {"gpipe", "1f1b"})
        for (const Cuts& cuts : kCuts)
          for (const int k : workers) {
            SCOPED_TRACE(text(schedule, ", ", cuts.name, ", ", k, " workers, M = ", m));
            expect_equal(plan(schedule, m, shifted(k, cuts.shift), algorithm), task(m), device);
          }
  }

  /// The first loss bit for bit, the rest up to rounding; the same bits in a second run, and at all ranks that hold a
  /// layer.
  void expect_close(const Plan& plan, const TrainingTask& task, Device& device) {
    const TrainingOutcome outcome = train(plan, task, device);
    EXPECT_EQ(to_text(train(plan, task, device)), to_text(outcome)) << "the second run differs";
    const TrainingOutcome& expected = reference(task);
    EXPECT_EQ(outcome.losses[0], expected.losses[0]);
    for (std::size_t step = 0; step < expected.losses.size(); ++step)
      EXPECT_NEAR(outcome.losses[step], expected.losses[step], 1e-5 * expected.losses[step]) << "step " << step;
    for (const auto& [layer, values] : outcome.weights) {
      double largest = 0, error = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double exact = expected.weights.at(layer)[i];
        largest = std::max(largest, std::abs(exact));
        error = std::max(error, std::abs(values[i] - exact));
      }
      EXPECT_LE(error, 1e-5 * largest) << layer;
    }
    expect_same_weights_everywhere(outcome);
  }

  void expect_same_weights_everywhere(const TrainingOutcome& outcome) {
    std::vector<double> hashes;  // two halves for each layer, exact in a double; -1 where a rank has it not
    for (const Layer& layer : profile_.model.layers) {
      const auto found = outcome.weights.find(layer.name);
      const std::uint64_t hash = found == outcome.weights.end() ? 0 : hash_of(found->second);
      for (const std::uint64_t half : {hash >> 32, hash & 0xffffffff})
        hashes.push_back(found == outcome.weights.end() ? -1 : static_cast<double>(half));
    }
    std::vector<double> largest = hashes;
    world_.all_max(largest);
    for (std::size_t i = 0; i < hashes.size(); ++i)
      EXPECT_TRUE(hashes[i] == -1 || hashes[i] == largest[i]) << profile_.model.layers[i / 2].name;
  }

  [[nodiscard]] TrainingTask task(int microbatches) const { return {.data = data_, .microbatches = microbatches}; }

  Communicator world_ = Communicator::world();
  std::unique_ptr<Device> host_;
  Profile profile_;
  std::string data_;
  Rank data_reader_ = kNone;                                            ///< of the plans that follow
  std::map<std::pair<int, std::int64_t>, TrainingOutcome> references_;  ///< by micro-batches and steps
};

}  // namespace sluice
