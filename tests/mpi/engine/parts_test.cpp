// The engine's parts one by one, under mpiexec with one rank and several.
#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "core/error.h"
#include "core/storage/dataset_file.h"
#include "core/text.h"
#include "optimizer/schedule/build_plan.h"
#include "runtime/device/fake/fake_device.h"
#include "runtime/device/host/host_device.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/clock.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/sample_order.h"
#include "runtime/engine/support.h"
#include "tests/mpi/engine/training_reference.h"
#include "tests/unit/schedule/partition.h"

namespace sluice {
namespace {

TEST(Agreement, lets_every_rank_leave_with_the_lowest_failing_ranks_error) {
  Communicator world = Communicator::world();
  const Rank last = world.size() - 1;
  try {
    collectively(world, [&] {
      if (world.rank() == last) throw infeasible("the last rank is short of memory");
    });
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
    EXPECT_STREQ(error.what(), "the last rank is short of memory");
  }
  try {
    collectively(world, [&] { throw bad_input(text("rank ", world.rank())); });
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_STREQ(error.what(), "rank 0");
  }
  EXPECT_NO_THROW(collectively(world, [] {}));
}

TEST(Agreement, takes_what_is_no_error_for_a_runtime_fault) {
  Communicator world = Communicator::world();
  try {
    collectively(world, [&] {
      if (world.rank() == 0) throw std::bad_alloc();
    });
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::runtime_fault);
  }
}

TEST(Loss, is_summed_in_the_order_of_microbatches_whoever_ran_them) {
  Communicator world = Communicator::world();
  const std::vector<double> sums{1e16, 1, 1, -1e16, 3};  // any other order has another sum
  std::map<int, MicrobatchLoss> own;
  for (int m = 0; m < 5; ++m)
    if ((m + 1) % world.size() == world.rank()) own[m] = {.sum = sums[static_cast<std::size_t>(m)], .correct = m};
  const BatchLoss loss = agree_on_loss(world, own, 5);
  EXPECT_EQ(loss.sum, 3);
  EXPECT_EQ(loss.correct, 10);
  EXPECT_TRUE(loss.finite);
}

TEST(Loss, is_not_finite_if_one_microbatch_is_not) {
  Communicator world = Communicator::world();
  for (const double sum : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::map<int, MicrobatchLoss> own;
    if (world.rank() == 0) own[0] = {.sum = 2};
    if (world.rank() == world.size() - 1) own[1] = {.sum = sum};
    EXPECT_FALSE(agree_on_loss(world, own, 2).finite);
  }
}

TEST(SampleOrder, is_a_permutation_that_depends_on_seed_and_epoch) {
  const std::vector<std::int64_t> order = sample_order(1000, 1, 0);
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 999);
  EXPECT_EQ(order, sample_order(1000, 1, 0));
  EXPECT_NE(order, sample_order(1000, 2, 0));
  EXPECT_NE(order, sample_order(1000, 1, 1));
  EXPECT_EQ(sample_order(1, 1, 0), std::vector<std::int64_t>{0});
}

TEST(SampleOrder, puts_each_sample_equally_often_at_each_place) {
  constexpr std::int64_t kSamples = 5, kEpochs = 5000;
  std::vector<int> count(kSamples * kSamples, 0);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<std::int64_t> order = sample_order(kSamples, 9, epoch);
    for (std::size_t place = 0; place < kSamples; ++place)
      ++count[place * kSamples + static_cast<std::size_t>(order[place])];
  }
  // 1000 expected, standard deviation 28.
  for (const int times : count) EXPECT_NEAR(times, 1000, 150);
}

TEST(Clock, offsets_bring_all_ranks_clocks_together) {
  Communicator world = Communicator::world();
  std::this_thread::sleep_for(std::chrono::milliseconds(3 * world.rank()));
  const StepClock clock;
  const ClockOffset offset = estimate_clock_offset(world, clock);
  EXPECT_EQ(offset.rank, world.rank());
  // On one host the steady clocks are one: between which moments each StepClock began is known on it.
  const auto now_ns = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  };
  const double before = now_ns();
  const auto reading = static_cast<double>(clock.now_ns());
  const double after = now_ns();
  const std::array<double, 2> began{before - reading, after - reading};
  const std::vector<double> all = world.all_gather(began);
  const auto uncertainty = static_cast<double>(offset.uncertainty_ns) + 2;  // whole nanoseconds
  EXPECT_GE(static_cast<double>(offset.offset_ns), began[0] - all[1] - uncertainty);
  EXPECT_LE(static_cast<double>(offset.offset_ns), began[1] - all[0] + uncertainty);
}

TEST(Recorder, sums_a_steps_times_by_kind_of_instruction) {
  Program program{.name = "step", .ranks = {{}, {}}};
  for (const Op op : {Op::load_input, Op::forward, Op::multicast_start, Op::multicast_wait, Op::load_labels,
                      Op::backward, Op::optimizer_step})
    program.ranks[1].push_back({.op = op});
  ProgramRun run;
  run.begin_ns = 5;
  run.duration_ns = 5000;
  std::int64_t now = 0;
  for (const std::int64_t duration : {1, 20, 300, 4, 50, 600, 7}) {
    run.timeline.instructions.push_back({now, now + duration});
    now += duration + 11;
  }
  run.timeline.sent_bytes = {1, 2};
  const RankStep totals = rank_totals(program, 1, 9, run);
  EXPECT_EQ(totals.step, 9);
  EXPECT_EQ(totals.rank, 1);
  EXPECT_EQ(totals.start_ns, 5);
  EXPECT_EQ(totals.duration_ns, 5000);
  EXPECT_EQ(totals.load_ns, 51);
  EXPECT_EQ(totals.compute_ns, 620);
  EXPECT_EQ(totals.communication_ns, 300);
  EXPECT_EQ(totals.wait_ns, 4);
  EXPECT_EQ(totals.update_ns, 7);
  EXPECT_EQ(totals.sent_bytes, (LinkBytes{1, 2}));
}

/// A dataset file for small_model, removed with the test.
class Loading : public testing::Test {
 protected:
  Loading() { write_random_dataset(path_, model_, 12, 5); }
  ~Loading() override { std::filesystem::remove(path_); }

  const Model model_ = small_model(4);
  const std::string path_ = std::filesystem::temp_directory_path() / text("sluice-loading-", getpid(), ".h5");
};

TEST_F(Loading, normalises_the_rows_of_a_microbatch_by_channel) {
  DataLoader loader(path_, model_, 3);
  const std::vector<std::int64_t> rows{11, 3, 4, 0, 9, 1, 2, 10, 5, 6, 7, 8};
  loader.begin_batch(Split::train, rows);
  std::vector<float> images(static_cast<std::size_t>(4 * loader.image_elements()));
  std::vector<std::int32_t> labels(4);
  loader.load_images(1, images);
  loader.load_labels(1, labels);
  EXPECT_EQ(loader.valid_samples(1), 4);

  const DatasetReader reader(path_);
  std::vector<std::uint8_t> pixels(images.size());
  std::vector<std::int32_t> expected_labels(4);
  reader.read_rows(Split::train, std::span(rows).subspan(4, 4), pixels.data(), expected_labels.data());
  EXPECT_EQ(labels, expected_labels);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t channel = i % 2;
    EXPECT_NEAR(images[i], (pixels[i] / 255.0 - reader.mean()[channel]) / reader.standard_deviation()[channel], 1e-5);
  }
}

TEST_F(Loading, pads_the_last_batch_with_zeros) {
  DataLoader loader(path_, model_, 3);
  const std::vector<std::int64_t> rows{0, 1, 2, 3, 4};
  loader.begin_batch(Split::test, rows);
  std::vector<float> images(static_cast<std::size_t>(4 * loader.image_elements()), 7);
  std::vector<std::int32_t> labels(4, 7);
  loader.load_images(1, images);
  loader.load_labels(1, labels);
  EXPECT_EQ(loader.valid_samples(0), 4);
  EXPECT_EQ(loader.valid_samples(1), 1);
  EXPECT_EQ(loader.valid_samples(2), 0);
  EXPECT_TRUE(std::all_of(images.begin() + loader.image_elements(), images.end(), [](float v) { return v == 0; }));
  EXPECT_TRUE(std::all_of(labels.begin() + 1, labels.end(), [](std::int32_t v) { return v == 0; }));
  loader.load_images(2, images);
  EXPECT_TRUE(std::all_of(images.begin(), images.end(), [](float v) { return v == 0; }));
}

/// A sequential plan on the first rank; the others have nothing to do.
class SequentialRun : public Loading {
 protected:
  SequentialRun() { omp_set_num_threads(1); }

  Plan plan() {
    const Profile profile = even_profile(model_);
    const Cluster cluster = uniform_cluster(1, world_.size(), {}, {});
    return build_plan({.profile = profile,
                       .cluster = cluster,
                       .schedule = "sequential",
                       .microbatches = 3,
                       .stages = stages_of({{0, 13}, {0, 13}})});
  }

  ProgramRun run(Device& device, const std::string& name, std::span<const std::int64_t> rows, Split split) {
    const Plan plan = this->plan();
    DataLoader loader(path_, model_, 3);
    loader.begin_batch(split, rows);
    Executor executor(plan, device, world_, loader, clock_, {.seed = 1, .sgd = {}});
    executor.initialise();
    return executor.run(program(plan, name), {.training = split == Split::train});
  }

  Communicator world_ = Communicator::world();
  StepClock clock_;
};

TEST_F(SequentialRun, masks_padding_in_an_evaluation) {
  const std::unique_ptr<Device> device = create_host_device();
  const std::vector<std::int64_t> all{0, 1, 2, 3, 4};
  const ProgramRun together = run(*device, "evaluate", all, Split::test);
  if (world_.rank() != 0) return;
  EXPECT_EQ(together.losses.size(), 3U);
  for (int m = 0; m < 3; ++m) {
    MicrobatchLoss singly;
    for (std::size_t i = 4 * static_cast<std::size_t>(m); i < std::min<std::size_t>(all.size(), 4 * m + 4); ++i) {
      const ProgramRun one = run(*device, "evaluate", std::span(&all[i], 1), Split::test);
      singly.sum += one.losses.at(0).sum;
      singly.correct += one.losses.at(0).correct;
    }
    EXPECT_NEAR(together.losses.at(m).sum, singly.sum, 1e-5);
    EXPECT_EQ(together.losses.at(m).correct, singly.correct);
  }
}

TEST_F(SequentialRun, passes_a_devices_failure_on) {
  if (world_.rank() != 0) return;
  const std::vector<std::int64_t> rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  // While weights are set, in the forward and in the backward pass.
  for (const std::int64_t piece : {3, 40, 100}) {
    const std::unique_ptr<Device> device = create_fake_device(
        create_host_device(), {.seed = 1, .max_delay = std::chrono::microseconds(20), .fail_at = piece});
    EXPECT_THROW((void)run(*device, "step", rows, Split::train), Error) << "piece " << piece;
  }
}

TEST_F(SequentialRun, names_the_features_that_it_refuses) {
  const Profile profile = even_profile(model_);
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  std::vector<LayerId> all(model_.layers.size());
  std::iota(all.begin(), all.end(), 0);
  const auto refusal = [&](const std::vector<Stage>& stages) -> std::string {
    try {
      require_executable(build_plan(
          {.profile = profile, .cluster = cluster, .schedule = "sequential", .microbatches = 2, .stages = stages}));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
      return error.what();
    }
    return "runs";
  };
  const Stage forward{Work::forward, 0, all, {0}}, backward{Work::backward, 0, all, {0}};
  EXPECT_EQ(refusal({forward, backward}), "runs");
  EXPECT_EQ(refusal({{Work::forward, 0, all, {0, 1}}, backward}), "runs");
  EXPECT_EQ(refusal({forward, backward, {Work::recompute, 0, {0, 1}, {0}}}), "runs");
  EXPECT_EQ(refusal({forward, {Work::backward_input, 0, all, {0}}, {Work::backward_weight, 0, all, {0}}}), "runs");
}

}  // namespace
}  // namespace sluice
