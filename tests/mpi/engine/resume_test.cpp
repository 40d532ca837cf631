// Training that goes on from a checkpoint comes to what uninterrupted training comes to: losses, evaluations, weights
// and momentum, bit for bit.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "core/asynchronous.h"
#include "core/schedule.h"
#include "optimizer/schedule/cooperative.h"
#include "runtime/device/fake/fake_device.h"
#include "tests/mpi/engine/training_run.h"
#include "tests/unit/schedule/partition.h"

namespace sluice {
namespace {

constexpr int kMicrobatch = 2, kMicrobatches = 4, kStepsPerEpoch = 3, kSteps = 7;

class Resume : public TrainingRuns {
 protected:
  Resume() { use(small_model(kMicrobatch), kStepsPerEpoch * kMicrobatches * kMicrobatch + 1); }

  Plan one_f_one_b(int workers, int shift) { return plan("1f1b", kMicrobatches, shifted(workers, shift)); }

  Plan placed(const std::string& schedule, int ranks) {
    const Placement placement = schedule_named(schedule).placement;
    const std::vector<int> cuts = bounds(layers(), positions_of(placement, ranks, 2), 0);
    return plan(schedule, kMicrobatches, stages_of({cuts, cuts}, schedule, ranks));
  }

  Plan cooperative(int ranks) {
    return plan("cooperative", kMicrobatches, cooperative_stages(profile_.model, bounds(layers(), ranks, 0)));
  }

  std::map<std::string, Plan> synchronous_plans() {
    std::map<std::string, Plan> plans;
    plans["1f1b on 4 ranks"] = one_f_one_b(4, 0);
    plans["1f1b on 3 ranks, forward ahead"] = one_f_one_b(3, 2);
    plans["1f1b on 2 ranks, backward ahead"] = one_f_one_b(2, -2);
    plans["one rank"] = one_f_one_b(1, 0);
    plans["gpipe on 3 ranks"] = plan("gpipe", kMicrobatches, shifted(3, 0));
    plans["zb-h1 on 4 ranks"] = plan("zb-h1", kMicrobatches, shifted(4, 1));
    plans["cooperative on 4 ranks"] = cooperative(4);
    plans["cooperative on 2 ranks"] = cooperative(2);
    plans["interleaved on 2 ranks"] = placed("interleaved-1f1b", 2);
    return plans;
  }

  /// Checkpoints of these steps lie in `kept`: the first of a run each, since the next one waits where it is still
  /// being written.
  TrainingState uninterrupted(const Plan& plan, const std::string& kept, const std::vector<std::int64_t>& steps) {
    TrainingState state;
    for (const std::int64_t step : steps) {
      clear_checkpoints();
      (void)run(plan, kTraining, {.every_steps = step, .keep = 100});
      state = this->state();
      if (world_.rank() != 0) continue;
      EXPECT_EQ(state.steps.size(), 7U);
      EXPECT_EQ(state.evaluations.size(), 3U);
      std::filesystem::create_directory(file(kept));
      std::filesystem::copy(checkpoint_folder(file("checkpoints"), step), checkpoint_folder(file(kept), step));
    }
    clear_checkpoints();
    return state;
  }

  /// What a run that begins after `step` steps can know of it.
  static TrainingState since(TrainingState state, std::int64_t step) {
    std::erase_if(state.steps, [&](const StepRecord& row) { return row.step < step; });
    std::erase_if(state.evaluations, [&](const Evaluation& row) { return row.step < step; });
    return state;
  }

  /// Goes on from each of the checkpoints of a run that are kept aside, to what that came to.
  void expect_the_same_from_each(const std::vector<std::int64_t>& steps, const Plan& plan,
                                 const TrainerSettings& settings, const CheckpointSettings& checkpoints,
                                 const TrainingState& expected) {
    for (const std::int64_t step : steps) {
      SCOPED_TRACE(text("after step ", step));
      begin_from("kept", step);
      (void)run(plan, settings, checkpoints);
      expect_state(since(expected, step));
    }
  }

  /// Of the whole folder.
  void damage_newest(const char* what) {
    world_.barrier();
    if (world_.rank() != 0) return world_.barrier();
    const std::filesystem::path folder = checkpoint_folder(file("checkpoints"), steps_of_checkpoints().at(0));
    const std::filesystem::path state = folder / state_name(1), manifest = folder / "manifest.h5";
    if (what == std::string("a byte")) {
      std::fstream stream(state, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(static_cast<std::streamoff>(std::filesystem::file_size(state) / 2));
      stream.put('\x5a');
    } else if (what == std::string("a file")) {
      std::filesystem::remove(state);
    } else {
      std::filesystem::resize_file(manifest, std::filesystem::file_size(manifest) / 2);
    }
    world_.barrier();
  }

  /// A signal to rank 2 stops it after a while, a longer one each time, until training is done.
  void train_with_stops(const Plan& plan, int signal) {
    std::int64_t steps = 0;
    int stops = 0;
    for (int delay_ms = 30; steps < kLong.steps; delay_ms *= 2) {
      const StopRequest until_the_sender_has_ended;
      std::atomic<bool> ended = false;
      const pthread_t trains = pthread_self();  // MPI's threads, begun before, would die of a signal to the process
      std::thread sender([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
        if (world_.rank() == 2 && !ended) pthread_kill(trains, signal);
      });
      const TrainingSummary summary = run(plan, kLong, kAtTheEnd);
      ended = true;
      sender.join();
      steps = summary.steps;
      std::array<double, 2> agreed{static_cast<double>(steps), -static_cast<double>(steps)};
      world_.all_max(agreed);
      EXPECT_EQ(agreed[0], -agreed[1]) << "ranks stopped at different steps";
      if (summary.stop_signal == 0) continue;
      ++stops;
      EXPECT_EQ(summary.stop_signal, signal);
      EXPECT_EQ(checkpoint_steps(file("checkpoints")).empty(), steps == 0);
    }
    EXPECT_GE(stops, 1);
  }

  static constexpr TrainerSettings kLong{.steps = 100, .evaluate_every = 10, .record_every = 100};
  static inline const CheckpointSettings kAtTheEnd{.every_steps = 1000};
  static constexpr TrainerSettings kTraining{.steps = kSteps, .evaluate_every = 1, .record_every = 3};
};

TEST_F(Resume, under_any_plan_at_any_step_is_as_if_nothing_had_happened) {
  const TrainingState expected = uninterrupted(one_f_one_b(4, 2), "kept", {1, 2, 3, 4, 5, 6, 7});
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 7});
  int number = 0;
  for (const auto& [name, plan] : synchronous_plans())
    for (std::int64_t step = 1 + number % 3; step <= kSteps; step += 3) {
      SCOPED_TRACE(text(name, ", after step ", step));
      begin_from("kept", step);
      const TrainingSummary summary =
          run(plan, kTraining, {.every_steps = 100}, ++number % 5 == 0 ? fake.get() : nullptr);
      EXPECT_EQ(summary.steps, kSteps);
      EXPECT_EQ(summary.loss.has_value(), step < kSteps);
      EXPECT_TRUE(summary.evaluation.has_value());
      expect_state(since(expected, step));
    }
}

TEST_F(Resume, from_the_checkpoints_of_any_plan) {
  const TrainingState expected = uninterrupted(one_f_one_b(1, 0), "kept", {7});
  for (const auto& [name, plan] : synchronous_plans()) {
    SCOPED_TRACE(name);
    const TrainingState state = uninterrupted(plan, name, {4});
    EXPECT_EQ(state, expected);
    begin_from(name, 4);
    (void)run(one_f_one_b(3, 0), kTraining, {.every_steps = 100});
    expect_state(since(expected, 4));
  }
}

TEST_F(Resume, with_replicas_comes_to_the_same_bits_under_the_same_plan) {
  std::vector<Stage> stages;
  append(stages, Work::forward, bounds(layers(), 2, 0), {{0, 1}, {3, 2}});
  append(stages, Work::backward, bounds(layers(), 2, 2), {{1, 0}, {2, 3}});
  const Plan plan = this->plan("1f1b", kMicrobatches, stages);
  const TrainingState expected = uninterrupted(plan, "kept", {1, 5});
  expect_the_same_from_each({1, 5}, plan, kTraining, {.every_steps = 100}, expected);
}

/// The pipeline is drained at a checkpoint, with the interruption and without.
TEST_F(Resume, of_an_asynchronous_plan_at_any_of_its_checkpoints) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"})
    for (const int every : {2, 4}) {
      SCOPED_TRACE(text(schedule, ", every ", every, " steps"));
      const Plan plan = this->plan(schedule, kMicrobatches, shifted(4, 0));
      const TrainerSettings settings{.steps = 13, .evaluate_every = 2, .record_every = 1};
      clear();
      (void)run(plan, settings, {.every_steps = every, .keep = 100});
      const TrainingState expected = state();
      const std::vector<std::int64_t> steps = steps_of_checkpoints();
      EXPECT_GE(steps.size(), 2U);
      keep_as("kept");
      expect_the_same_from_each(steps, plan, settings, {.every_steps = every, .keep = 100}, expected);
    }
}

/// What an asynchronous run has come to is where all synchronous plans go on alike, and an asynchronous one again.
TEST_F(Resume, under_synchronous_plans_after_an_asynchronous_one_and_back) {
  const Plan asynchronous = plan("pipedream", kMicrobatches, shifted(4, 0));
  const auto until = [](std::int64_t steps) { return TrainerSettings{.steps = steps, .record_every = 100}; };
  (void)run(asynchronous, until(8), {.every_steps = 8});
  keep_as("kept");
  begin_from("kept", 8);
  (void)run(one_f_one_b(1, 0), until(12), {.every_steps = 12});
  const TrainingState expected = state();
  for (const Plan& plan : {one_f_one_b(4, 2), cooperative(3)}) {
    begin_from("kept", 8);
    (void)run(plan, until(12), {.every_steps = 12});
    expect_state(expected);
  }
  (void)run(asynchronous, until(20), {.every_steps = 20});
  if (world_.rank() != 0) return;
  const RunTables tables = read_results(file("results.h5")).tables;
  ASSERT_EQ(tables.steps.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(tables.steps[i].step, static_cast<std::int64_t>(i) + 8);
}

/// Neither what is left until an evaluation nor what a checkpoint cuts off is shorter than a drain.
TEST_F(Resume, of_a_deep_asynchronous_pipeline_keeps_stretches_long) {
  const Plan plan = this->plan("pipedream", 1, shifted(4, 0));
  ASSERT_EQ(steadies_in_drain(plan), 3);
  const TrainerSettings settings{.steps = 24, .evaluate_every = 1, .record_every = 1};  // an evaluation after 12 steps
  const std::map<int, std::vector<std::int64_t>> all{
      {1, {24, 21, 18, 15, 12, 9, 6, 3}}, {4, {24, 20, 16, 12, 8, 4}}, {5, {24, 20, 15, 12, 5}}, {11, {24, 12}}};
  for (const auto& [every, wanted] : all) {
    SCOPED_TRACE(text("every ", every, " steps"));
    clear();
    (void)run(plan, settings, {.every_steps = every, .keep = 100});
    const TrainingState expected = state();
    const std::vector<std::int64_t> steps = steps_of_checkpoints();
    EXPECT_EQ(steps.front(), 24);
    for (const std::int64_t step : steps)
      EXPECT_NE(std::find(wanted.begin(), wanted.end(), step), wanted.end()) << step;
    keep_as("kept");
    expect_the_same_from_each(steps, plan, settings, {.every_steps = every, .keep = 100}, expected);
  }
}

TEST_F(Resume, begins_where_the_newest_whole_checkpoint_is) {
  const Plan plan = one_f_one_b(4, 0);
  const TrainingState expected = uninterrupted(plan, "kept", {5, 6, 7});
  for (const char* what : {"a byte", "a file", "the manifest"}) {
    SCOPED_TRACE(what);
    clear_checkpoints();
    if (world_.rank() == 0) {
      std::filesystem::remove(file("results.h5"));
      std::filesystem::copy(file("kept"), file("checkpoints"), std::filesystem::copy_options::recursive);
    }
    damage_newest(what);
    EXPECT_EQ(agree_on_checkpoint(world_, file("checkpoints")).value().step, kSteps - 1);
    (void)run(plan, kTraining, {.every_steps = 1});  // the damaged one is written anew
    expect_state(since(expected, kSteps - 1));
    EXPECT_EQ(steps_of_checkpoints(), (std::vector<std::int64_t>{7, 6}));
    EXPECT_EQ(agree_on_checkpoint(world_, file("checkpoints")).value().step, kSteps);
  }
}

TEST_F(Resume, is_refused_where_all_checkpoints_are_damaged) {
  (void)run(one_f_one_b(2, 0), kTraining, {.every_steps = 1});
  EXPECT_EQ(steps_of_checkpoints().size(), 2U) << "two are kept";
  damage_newest("a byte");
  const std::string newest = checkpoint_folder(file("checkpoints"), 7);
  world_.barrier();
  if (world_.rank() == 0) std::filesystem::rename(newest, newest + "-aside");
  damage_newest("a file");
  if (world_.rank() == 0) std::filesystem::rename(newest + "-aside", newest);
  world_.barrier();
  try {
    (void)agree_on_checkpoint(world_, file("checkpoints"));
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("all 2 checkpoints are damaged"), std::string::npos) << error.what();
  }
}

TEST_F(Resume, begins_anew_where_there_is_no_whole_checkpoint_yet) {
  if (world_.rank() == 0) {
    std::filesystem::create_directories(file("checkpoints/step-000000000003"));
    std::ofstream(file("checkpoints/step-000000000003/rank-000000.h5")) << "half";
  }
  world_.barrier();
  EXPECT_FALSE(agree_on_checkpoint(world_, file("checkpoints")));
  (void)run(one_f_one_b(2, 0), kTraining, {});
  EXPECT_FALSE(std::filesystem::exists(file("checkpoints/step-000000000003")));
}

/// Whoever is killed right after a checkpoint goes on with a record of all steps before it.
TEST_F(Resume, finds_in_the_record_what_a_checkpoint_stands_for) {
  after_training_ = [&] {
    world_.barrier();
    if (world_.rank() != 0) return;
    const RunTables tables = read_results(file("results.h5")).tables;
    EXPECT_EQ(tables.steps.size(), 7U);
    EXPECT_EQ(tables.ranks.size(), 4 * 7U);
    EXPECT_EQ(tables.evaluations.size(), 3U);
  };
  (void)run(one_f_one_b(4, 0), kTraining, {.every_steps = 7});
  EXPECT_EQ(steps_of_checkpoints(), std::vector<std::int64_t>{7});
}

/// Wherever it comes, and although one rank alone is told.
TEST_F(Resume, after_signals_to_one_rank_is_as_if_nothing_had_happened) {
  const Plan plan = one_f_one_b(4, 2);
  (void)run(plan, kLong, kAtTheEnd);
  const TrainingState expected = state();
  for (const int signal : {SIGUSR1, SIGTERM}) {
    SCOPED_TRACE(signal_name(signal));
    clear();
    train_with_stops(plan, signal);
    expect_state(expected);
  }
}

TEST_F(Resume, of_an_asynchronous_plan_after_signals_leaves_no_step_out) {
  train_with_stops(this->plan("pipedream", kMicrobatches, shifted(4, 0)), SIGUSR1);
  if (world_.rank() != 0) return;
  const RunTables tables = read_results(file("results.h5")).tables;
  ASSERT_EQ(std::ssize(tables.steps), kLong.steps);
  for (std::int64_t step = 0; step < kLong.steps; ++step)
    EXPECT_EQ(tables.steps[static_cast<std::size_t>(step)].step, step);
  EXPECT_EQ(tables.evaluations.size(), 4U);
}

TEST_F(Resume, before_the_first_step_has_nothing_to_save) {
  const Plan plan = one_f_one_b(2, 0);
  before_training_ = [&] {
    if (world_.rank() == 3) raise(SIGTERM);
  };
  const TrainingSummary summary = run(plan, kTraining, {.every_steps = 1});
  EXPECT_EQ(summary.stop_signal, SIGTERM);
  EXPECT_EQ(summary.steps, 0);
  EXPECT_TRUE(steps_of_checkpoints().empty());
}

TEST_F(Resume, follows_checkpoints_by_time) {
  const Plan plan = one_f_one_b(4, 0);
  const TrainerSettings settings{.steps = 40, .evaluate_every = 5, .record_every = 100};
  for (const char* schedule : {"1f1b", "pipedream"}) {
    SCOPED_TRACE(schedule);
    clear();
    (void)run(this->plan(schedule, kMicrobatches, shifted(3, 0)), settings, {.every_s = 1e-9, .keep = 100});
    const std::vector<std::int64_t> steps = steps_of_checkpoints();
    EXPECT_GE(steps.size(), 2U);
    EXPECT_EQ(steps.at(0), 40);
    const TrainingState expected = state();
    if (schedule == std::string("pipedream")) continue;  // its drains came when they came
    keep_as("kept");
    begin_from("kept", steps.back());
    (void)run(plan, settings, {.every_steps = 100});
    expect_state(since(expected, steps.back()));
  }
}

/// However slow all is: no more of them than the time has room for.
TEST_F(Resume, has_no_more_checkpoints_by_time_than_are_due) {
  constexpr double kEvery_s = 0.1;
  const StepClock clock;
  (void)run(one_f_one_b(4, 0), {.steps = 400, .evaluate_every = 0, .record_every = 1000},
            {.every_s = kEvery_s, .keep = 1000});
  const double took_s = static_cast<double>(clock.now_ns()) * 1e-9;
  EXPECT_LE(static_cast<double>(steps_of_checkpoints().size()), took_s / kEvery_s + 1) << "with the last";
}

/// Nobody but one rank has a disk that is full.
TEST_F(Resume, is_not_needed_when_the_disk_is_full_during_a_checkpoint) {
  const Plan plan = one_f_one_b(4, 0);
  const TrainingState expected = uninterrupted(plan, "kept", {2});
  for (const Rank full : {0, 2}) {
    SCOPED_TRACE(text("rank ", full));
    begin_from("kept", 2);
    const auto limit = [&](rlim_t bytes) {
      if (world_.rank() != full) return;
      (void)::signal(SIGXFSZ, SIG_IGN);
      rlimit size{};
      getrlimit(RLIMIT_FSIZE, &size);
      size.rlim_cur = bytes;
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &size), 0);
    };
    before_training_ = [&] { limit(512); };
    after_training_ = [&] { limit(RLIM_INFINITY); };
    const TrainingSummary summary = run(plan, kTraining, {.every_steps = 2});
    EXPECT_EQ(summary.steps, kSteps);
    EXPECT_EQ(steps_of_checkpoints(), (std::vector<std::int64_t>{2})) << "the previous one stands, alone";
    before_training_ = after_training_ = [] {};
    if (world_.rank() == 0) {
      const RunTables tables = read_results(file("results.h5")).tables;
      EXPECT_GE(tables.checkpoints.size(), 2U);
      for (const CheckpointRecord& checkpoint : tables.checkpoints) EXPECT_FALSE(checkpoint.written);
      EXPECT_EQ(tables.steps.size(), 5U);
    }
    world_.barrier();
    (void)run(plan, kTraining, {.every_steps = 2});
    expect_state(since(expected, 2));
  }
}

}  // namespace
}  // namespace sluice
