// A synchronous plan trains the same model as one rank does, bit for bit.
#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "core/liveness.h"
#include "core/simulator.h"
#include "core/text.h"
#include "core/verifier.h"
#include "optimizer/schedule/build_plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/fake/fake_device.h"
#include "runtime/device/host/host_device.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/sample_order.h"
#include "runtime/engine/support.h"
#include "runtime/nn/models.h"
#include "tests/mpi/engine/training_reference.h"
#include "tests/unit/schedule/partition.h"

namespace sluice {
namespace {

struct Cuts {
  const char* name;
  int shift;  ///< forward cuts lie later by it, backward cuts earlier
};
constexpr Cuts kCuts[] = {{"joint", 0}, {"forward ahead", 2}, {"backward ahead", -2}};

std::vector<int> bounds(int layers, int workers, int shift) {
  std::vector<int> bounds{0};
  for (int k = 1; k < workers; ++k) bounds.push_back(std::clamp(layers * k / workers + shift, 0, layers));
  bounds.push_back(layers);
  return bounds;
}

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

  /// The oracle's outcome; computed on rank 0, known as text everywhere.
  std::string reference(const TrainingTask& task) {
    return world_.broadcast(world_.rank() == 0 ? to_text(train_plainly(*host_, profile_.model, task)) : "");
  }

  static std::string to_text(const TrainingOutcome& outcome) {
    std::string lines;
    for (const float loss : outcome.losses) lines += loss_line(loss);
    for (const auto& [layer, hash] : outcome.weights) lines += weights_line(layer, hash);
    return lines;
  }
  static std::string loss_line(float loss) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "loss %a\n", static_cast<double>(loss));
    return buffer;
  }
  static std::string weights_line(const std::string& layer, std::uint64_t hash) { return text(layer, ' ', hash, '\n'); }

  Plan plan(const std::string& schedule, int workers, int microbatches, int shift, MulticastAlgorithm algorithm) {
    Cluster cluster;
    for (const int node : world_.node_of_rank()) cluster.ranks.push_back({.node = node});
    cluster.node_names = world_.node_names();
    const int layers = static_cast<int>(profile_.model.layers.size());
    return build_plan({.profile = profile_,
                       .cluster = cluster,
                       .schedule = schedule,
                       .microbatches = microbatches,
                       .stages = stages_of({bounds(layers, workers, shift), bounds(layers, workers, -shift)}),
                       .algorithm = algorithm});
  }

  /// Runs the plan and compares all that this rank sees with the reference, and its bytes and memory with the plan's.
  void expect_equal(const Plan& plan, const TrainingTask& task, const std::string& reference, Device& device) {
    ASSERT_FALSE(verify(plan)) << to_string(*verify(plan));
    require_executable(plan);
    const StepClock clock;
    DataLoader data(task.data, plan.profile.model, plan.microbatches);
    Executor executor(plan, device, world_, data, clock, {task.seed, task.sgd});
    executor.initialise();
    EXPECT_EQ(executor.allocated_bytes(), memory_use(plan, world_.rank()).total());
    const RankTimeline predicted = simulate(plan).ranks[static_cast<std::size_t>(world_.rank())];
    const std::vector<std::int64_t> order = sample_order(data.samples(Split::train), task.seed, 0);
    std::string losses;
    for (std::int64_t step = 0; step < task.steps; ++step) {
      const auto batch = static_cast<std::size_t>(data.global_batch());
      data.begin_batch(Split::train, std::span(order).subspan(static_cast<std::size_t>(step) * batch, batch));
      const ProgramRun run = executor.run(program(plan, "step"), {.step = step});
      EXPECT_EQ(run.timeline.sent_bytes, predicted.sent_bytes);
      EXPECT_EQ(run.timeline.received_bytes, predicted.received_bytes);
      if (run.owns_loss)
        losses += loss_line(static_cast<float>(run.loss_sum / static_cast<double>(data.global_batch())));
    }
    EXPECT_EQ(losses, losses.empty() ? "" : reference.substr(0, losses.size()));
    for (const auto& [id, values] : executor.weights()) {
      const std::string line =
          weights_line(plan.profile.model.layers[static_cast<std::size_t>(id)].name, hash_of(values));
      EXPECT_NE(reference.find(line), std::string::npos) << line << " is not in\n" << reference;
    }
    world_.barrier();
  }

  void expect_all_equal(const std::vector<int>& workers, const std::vector<int>& microbatches, Device& device,
                        MulticastAlgorithm algorithm) {
    for (const int m : microbatches) {
      const TrainingTask task{.data = data_, .microbatches = m};
      const std::string expected = reference(task);
      for (const char* schedule : {"gpipe", "1f1b"})
        for (const Cuts& cuts : kCuts)
          for (const int k : workers) {
            SCOPED_TRACE(text(schedule, ", ", cuts.name, ", ", k, " workers, M = ", m));
            expect_equal(plan(schedule, k, m, cuts.shift, algorithm), task, expected, device);
          }
    }
  }

  Communicator world_ = Communicator::world();
  std::unique_ptr<Device> host_;
  Profile profile_;
  std::string data_;
};

TEST_F(Equality, holds_for_every_schedule_cut_and_number_of_microbatches) {
  use(small_model(4), 5 * 8 * 4);
  expect_all_equal({1, 2, 3, 4}, {1, 2, 3, 8}, *host_, MulticastAlgorithm::hierarchical);
}

TEST_F(Equality, holds_with_flat_multicasts) {
  use(small_model(3), 5 * 3 * 3);
  expect_all_equal({3, 4}, {3}, *host_, MulticastAlgorithm::flat);
}

TEST_F(Equality, holds_on_an_asynchronous_device) {
  use(small_model(2), 5 * 3 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 7});
  expect_all_equal({1, 2, 4}, {3}, *fake, MulticastAlgorithm::hierarchical);
}

TEST_F(Equality, holds_for_lenet5) {
  use(build_model("lenet5", {1, 28, 28}, 10, 4), 5 * 3 * 4);
  expect_all_equal({2, 3, 4}, {1, 3}, *host_, MulticastAlgorithm::hierarchical);
}

TEST_F(Equality, holds_for_vgg11) {
  use(build_model("vgg11", {3, 32, 32}, 10, 2), 2 * 2 * 2);
  const TrainingTask task{.data = data_, .microbatches = 2, .steps = 2};
  expect_equal(plan("1f1b", 3, 2, 2, MulticastAlgorithm::hierarchical), task, reference(task), *host_);
}

}  // namespace
}  // namespace sluice
