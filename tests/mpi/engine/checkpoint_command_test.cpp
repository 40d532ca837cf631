// Checkpoints as users of sluice-run train meet them: words, refusals, signals and exit codes.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <thread>

#include "core/storage/checkpoint_files.h"
#include "core/storage/folder_lock.h"
#include "core/storage/plan_file.h"
#include "core/storage/results_file.h"
#include "core/storage/weights_file.h"
#include "runtime/nn/model_builder.h"
#include "tests/mpi/engine/sluice_run.h"

namespace sluice {
namespace {

class Checkpoints : public SluiceRun {
 protected:
  Checkpoints() {
    write_plan(file("four.h5"), plan(small_model(4), "1f1b", 1, 4, {{0, 3, 6, 9, 13}, {0, 4, 5, 11, 13}}));
    write_plan(file("two.h5"), plan(small_model(4), "gpipe", 1, 2, {{0, 7, 13}, {0, 5, 13}}));
    write_plan(file("one.h5"), plan(small_model(4), "sequential", 1, 1, {{0, 13}, {0, 13}}));
  }

  [[nodiscard]] std::string output() const { return text(" -o ", file("results.h5")); }
  [[nodiscard]] std::string folder() const { return file("results.h5.checkpoints"); }

  /// Two steps on four ranks, with a checkpoint.
  void train_two_steps() const {
    const Outcome outcome = train(4, "four.h5", text("--steps 2 --checkpoint-every 1", output()));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    ASSERT_EQ(checkpoint_steps(folder()).at(0), 2);
  }

  [[nodiscard]] Weights weights_of(const Outcome& outcome, const std::string& name) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_weights(file(name));
  }

  void expect_refused_resume(const Outcome& outcome, const std::string& phrase) const {
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::bad_input)) << outcome.err;
    EXPECT_EQ(outcome.times(phrase), 1) << phrase << " should be said once in:\n" << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(checkpoint_steps(folder()).at(0), 2);
  }
};

TEST_F(Checkpoints, carry_training_over_jobs_of_four_two_and_one_ranks) {
  const Weights expected =
      weights_of(train(2, "two.h5", text("--steps 6 -o ", file("whole.h5"), " --save-weights ", file("w.h5"))), "w.h5");
  train_two_steps();
  const Outcome two = train(2, "two.h5", text("--steps 4 --resume --checkpoint-every 100s --keep 1", output()));
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(two.times("goes on from " + checkpoint_folder(folder(), 2)), 1) << two.err;
  EXPECT_EQ(checkpoint_steps(folder()), (std::vector<std::int64_t>{4}));
  const std::string rest = text("--steps 6 --resume --save-weights ", file("one-w.h5"), output());
  EXPECT_EQ(weights_of(train(1, "one.h5", rest), "one-w.h5"), expected);

  const RunResults results = read_results(file("results.h5"));
  EXPECT_TRUE(results.merged);
  ASSERT_EQ(results.attempts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(results.attempts[i].first_step, 2 * static_cast<std::int64_t>(i));
  const std::vector<StepRecord> steps = read_results(file("whole.h5")).tables.steps;
  ASSERT_EQ(results.tables.steps.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(results.tables.steps[i].loss, steps[i].loss) << "step " << i;
}

TEST_F(Checkpoints, of_a_run_that_has_ended_leave_nothing_to_do) {
  const std::string words = text("--steps 5 --evaluate-every 1 --checkpoint-every 5", output(), " --save-weights ");
  const Weights expected = weights_of(train(2, "two.h5", text(words, file("w.h5"))), "w.h5");
  const CheckpointManifest manifest = read_manifest(checkpoint_folder(folder(), 5));
  EXPECT_EQ(manifest.epoch, 1) << "that the next step belongs to";
  EXPECT_EQ(std::tuple(manifest.seed, manifest.samples, manifest.microbatch, manifest.microbatches, manifest.threads,
                       manifest.ranks, manifest.schedule, manifest.settings.at("momentum")),
            std::tuple(3, 60, 4, 3, 1, 2, "gpipe", "0.9"));
  const RunTables before = read_results(file("results.h5")).tables;
  const Outcome again = train(2, "two.h5", text(words, file("again.h5"), " --resume"));
  EXPECT_EQ(weights_of(again, "again.h5"), expected);
  EXPECT_EQ(again.out.find(text("steps=5 loss=none accuracy=", before.evaluations.at(0).accuracy, " step_s=none")), 0U)
      << again.out;
  const RunTables after = read_results(file("results.h5")).tables;
  EXPECT_EQ(after.steps, before.steps);
  EXPECT_EQ(after.evaluations, before.evaluations);
  EXPECT_EQ(after.checkpoints, before.checkpoints);
}

TEST_F(Checkpoints, are_not_mixed_with_those_of_another_training) {
  train_two_steps();
  const std::string more = text("--steps 4", output());
  expect_refused_resume(train(2, "two.h5", more), "go on from it with --resume");
  const std::string resume = more + " --resume";
  expect_refused_resume(
      run(2, text("train --plan ", file("two.h5"), " --data ", file("data.h5"), " --seed 4 ", resume)),
      "with seed 3, but this one has 4: give the same --seed");
  write_plan(file("other.h5"), plan(small_model(4), "gpipe", 1, 2, {{0, 7, 13}, {0, 5, 13}}, 2));
  expect_refused_resume(train(2, "other.h5", resume), "a global batch of 12, but this one has 8");
  write_random_dataset(file("data.h5"), small_model(4), 61, 10);
  expect_refused_resume(train(2, "two.h5", resume), "training samples of 60, but this one has 61");
  write_random_dataset(file("data.h5"), small_model(4), 60, 10);
  expect_refused_resume(train(2, "two.h5", text("--steps 1 --resume", output())),
                        "has more steps than the 1 that are asked for");
}

Model another_model(const std::string& second, std::int64_t features) {
  return ModelBuilder("small", {2, 12, 12}, 4, 4)
      .linear("fc1", features)
      .relu("relu")
      .linear(second, 4)
      .softmax_cross_entropy("loss");
}

TEST_F(Checkpoints, and_weights_of_other_layers_are_refused_by_name) {
  write_plan(file("then.h5"), plan(another_model("fc2", 9), "gpipe", 1, 2, {{0, 2, 4}, {0, 2, 4}}));
  ASSERT_EQ(
      train(2, "then.h5", text("--steps 2 --checkpoint-every 2", output(), " --save-weights ", file("w.h5"))).code, 0);
  write_plan(file("named.h5"), plan(another_model("fc3", 9), "gpipe", 1, 2, {{0, 2, 4}, {0, 2, 4}}));
  write_plan(file("wide.h5"), plan(another_model("fc2", 8), "gpipe", 1, 2, {{0, 2, 4}, {0, 2, 4}}));
  expect_refused_resume(train(2, "named.h5", text("--steps 4 --resume", output())),
                        "layer fc3 is missing, layer fc2 is not in the model");
  expect_refused_resume(train(2, "wide.h5", text("--steps 4 --resume", output())), "fc1/bias is 9 weights, expected 8");
  const std::string begin = text("--steps 4 --init-from ", file("w.h5"), " -o ", file("new.h5"));
  expect_refused_resume(train(2, "named.h5", begin),
                        "w.h5: fc3/bias is missing, fc3/weight is missing, fc2/bias is not in the model");
  expect_refused_resume(train(2, "wide.h5", begin), "fc2/weight is 4x9 weights, expected 4x8 weights");
}

TEST_F(Checkpoints, count_more_than_the_weights_to_begin_with) {
  const auto words = [&](const char* rest) {
    return text("--steps 2 --checkpoint-every 2 ", rest, output(), " --save-weights ", file("w.h5"));
  };
  const Weights trained = weights_of(train(2, "two.h5", words("")), "w.h5");
  std::filesystem::rename(file("w.h5"), file("begin.h5"));
  std::filesystem::remove_all(folder());
  const std::string init = text("--init-from ", file("begin.h5"), " ");
  const std::string still = text("--steps 1 --learning-rate 0 ", init, " -o ", file("still.h5"), " --save-weights ");
  EXPECT_EQ(weights_of(run(4, text("train --plan ", file("four.h5"), " --data ", file("data.h5"), " ", still,
                                   file("still-w.h5"))),
                       "still-w.h5"),
            trained);

  const Weights further = weights_of(train(2, "two.h5", words((init + "--resume").c_str())), "w.h5");
  EXPECT_NE(further, trained);
  const Outcome again = train(4, "four.h5", words((init + "--resume").c_str()));
  EXPECT_EQ(weights_of(again, "w.h5"), further);
  EXPECT_EQ(again.times("the checkpoint's weights count, not those of "), 1) << again.err;
}

TEST_F(Checkpoints, warn_of_other_settings_and_of_other_bits) {
  train_two_steps();
  const Outcome outcome = run(2, text("train --plan ", file("two.h5"), " --data ", file("data.h5"),
                                      " --seed 3 --learning-rate 0.01 --momentum 0.9 --weight-decay 0.001 --threads 2 "
                                      "--steps 3 --resume",
                                      output()));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.times("warning: goes on with another learning-rate 0.01 (was 0.05)\n"), 1) << outcome.err;
  EXPECT_EQ(outcome.times("will differ in their last bits from those without a restart: threads 2 (was 1)"), 1)
      << outcome.err;
}

TEST_F(Checkpoints, go_on_with_other_micro_batches_of_the_same_product) {
  train_two_steps();
  write_plan(file("six.h5"), plan(small_model(2), "gpipe", 1, 2, {{0, 7, 13}, {0, 5, 13}}, 6));
  const Outcome outcome = train(2, "six.h5", text("--steps 4 --resume", output()));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.times("without a restart: micro-batches 6 (was 3), micro-batch 2 (was 4)"), 1) << outcome.err;
  const Outcome whole = train(2, "two.h5", text("--steps 4 -o ", file("whole.h5")));
  const auto loss = [&](const char* name) { return read_results(file(name)).tables.steps.at(3).loss; };
  EXPECT_NEAR(loss("results.h5"), loss("whole.h5"), 1e-4);
}

/// Two ranks read the files of four. What is passed over is not lost, but counts no more.
TEST_F(Checkpoints, that_are_damaged_in_any_file_are_passed_over_and_put_aside) {
  train_two_steps();
  const std::string newest = checkpoint_folder(folder(), 2), aside = newest + ".passed-over";
  std::filesystem::rename(folder(), file("kept"));
  const std::vector<StateFile> files = read_manifest(checkpoint_folder(file("kept"), 2)).files;
  ASSERT_EQ(files.size(), 3U) << "one rank has nothing to save";
  for (const StateFile& damaged : files) {
    SCOPED_TRACE(damaged.name);
    std::filesystem::remove_all(folder());
    std::filesystem::copy(file("kept"), folder(), std::filesystem::copy_options::recursive);
    std::filesystem::resize_file(newest + "/" + damaged.name, 1000);
    const Outcome outcome = train(2, "two.h5", text("--steps 3 --resume --checkpoint-every 1 --keep 9", output()));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.times(newest + " is damaged and passed over: " + newest + "/" + damaged.name), 1) << outcome.err;
    EXPECT_EQ(outcome.times("what was passed over is " + aside), 1) << outcome.err;
    EXPECT_EQ(checkpoint_steps(folder()).at(0), 3);
    EXPECT_TRUE(is_checkpoint(aside));
  }
}

TEST_F(Checkpoints, begin_anew_where_there_are_none) {
  const Outcome outcome = train(2, "two.h5", text("--steps 1 --resume", output()));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.times("holds no checkpoint: training begins anew"), 1) << outcome.err;
}

TEST_F(Checkpoints, are_those_of_one_run_at_a_time) {
  train_two_steps();
  const std::string elsewhere = text("--steps 4 --resume --checkpoints ", folder(), " -o ", file("other.h5"));
  {
    const FolderLock other(folder());
    const Outcome outcome = train(2, "two.h5", elsewhere);
    expect_refused_resume(outcome, "another run is writing there");
    EXPECT_EQ(outcome.times("goes on from"), 0) << "what the other run writes meanwhile would be newer";
    EXPECT_FALSE(std::filesystem::exists(file("other.h5")));
  }
  EXPECT_EQ(train(2, "two.h5", elsewhere).code, 0);
}

/// Each rank sees a folder of its own under the same name.
TEST_F(Checkpoints, need_a_folder_that_all_nodes_share) {
  const auto train_apart = [&](const std::string& more) {
    const auto rank_in = [&](const char* disk) {
      std::filesystem::create_directory(file(disk));
      return text("-n 1 -wdir ", file(disk), " ", SLUICE_RUN, " train --plan ", file("two.h5"), " --data ",
                  file("data.h5"), " --checkpoints here ", more, output());
    };
    return run_job(text(rank_in("disk0"), " : ", rank_in("disk1")));
  };
  const Outcome unseen = train_apart("--steps 2 --checkpoint-every 2");
  EXPECT_EQ(unseen.code, static_cast<int>(ExitCode::bad_input)) << unseen.err;
  EXPECT_EQ(unseen.times("does not see here, which rank 0 does"), 1) << unseen.err;

  std::filesystem::create_directory(file("disk1/here"));
  const Outcome outcome = train_apart("--steps 2 --checkpoint-every 2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.times("warning: there is no checkpoint of step 2"), 1) << outcome.err;
  EXPECT_EQ(outcome.times("is not there for rank 0: name a folder that all nodes share"), 1) << outcome.err;
  EXPECT_TRUE(checkpoint_steps(file("disk0/here")).empty());

  train_two_steps();
  std::filesystem::remove_all(file("disk0/here"));
  std::filesystem::rename(folder(), file("disk0/here"));
  std::filesystem::remove_all(file("disk1/here"));
  const Outcome resumed = train_apart("--steps 4 --resume");
  EXPECT_EQ(resumed.code, static_cast<int>(ExitCode::bad_input)) << resumed.err;
  EXPECT_EQ(resumed.times("does not see here/step-000000000002, which rank 0 does"), 1) << resumed.err;
}

TEST_F(Checkpoints, are_asked_for_in_words_that_mean_something) {
  for (const char* words : {"--checkpoint-every 0", "--checkpoint-every -1", "--checkpoint-every s",
                            "--checkpoint-every 5m", "--checkpoint-every 0s", "--checkpoint-every infs",
                            "--checkpoint-every 1.5", "--checkpoint-every ''", "--keep 0"}) {
    const Outcome outcome = run(2, text("train --plan p --data d -o r --steps 1 ", words));
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::usage)) << words << '\n' << outcome.err;
  }
}

TEST_F(Checkpoints, do_not_go_where_other_things_are) {
  const auto train_into = [&](const std::string& name, const char* more = "") {
    return train(2, "two.h5", text("--steps 1 --checkpoint-every 1 --checkpoints ", file(name), output(), more));
  };
  expect_refused(train_into("results.h5"), ExitCode::usage, "which holds something else");
  expect_refused(train_into("./results.h5.parts"), ExitCode::usage, "which holds something else");
  expect_refused(train_into("two.h5"), ExitCode::bad_input, "two.h5: cannot be read: Not a directory");
  expect_refused(train_into("two.h5/folder"), ExitCode::bad_input, "two.h5/folder: cannot be made: Not a directory");
}

/// Whether the process has come to where it hears a signal.
bool hears(pid_t process, int signal) {
  const std::string status = contents(text("/proc/", process, "/status"));
  const std::size_t blocked = status.find("SigBlk:");  // until it asks for it
  return blocked != std::string::npos &&
         (std::stoull(status.substr(blocked + 7), nullptr, 16) >> (signal - 1) & 1) != 0;
}

TEST_F(Checkpoints, can_be_asked_for_as_soon_as_ranks_begin_and_until_they_are_gone) {
  std::future<Outcome> outcome = std::async(
      std::launch::async, [&] { return train(2, "two.h5", text("--steps 100000 --checkpoint-every 100", output())); });
  while (outcome.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
    for (const auto& [rank, process] : find_processes())
      if (hears(process, SIGTERM)) kill(process, SIGTERM);
  const Outcome ended = outcome.get();
  EXPECT_EQ(ended.code, static_cast<int>(ExitCode::preempted)) << ended.err;
  EXPECT_EQ(ended.times("stopped by SIGTERM after step 0 "), 1) << ended.err;
}

/// Although one rank alone is asked.
TEST_F(Checkpoints, are_written_on_request_and_the_job_ends_with_75) {
  const auto train_until = [&](int signal) {
    std::filesystem::remove(file("err"));
    auto outcome = std::async(std::launch::async,
                              [&] { return train(4, "four.h5", text("--steps 100000000 --resume", output())); });
    while (contents(file("err")).find(" step ") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kill(find_processes().at(2), signal);
    return outcome.get();
  };
  for (const int signal : {SIGUSR1, SIGTERM}) {
    const Outcome outcome = train_until(signal);
    EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::preempted)) << outcome.err;
    EXPECT_EQ(outcome.times(text("sluice-run: stopped by ", signal == SIGUSR1 ? "SIGUSR1" : "SIGTERM", " after step ")),
              1)
        << outcome.err;
    EXPECT_EQ(outcome.times("with the same words and --resume"), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(file("results.h5")));
    const std::int64_t steps = checkpoint_steps(folder()).at(0);
    EXPECT_EQ(std::ssize(read_results(file("results.h5")).tables.steps), steps) << "all before it is recorded";
  }
  EXPECT_EQ(read_results(file("results.h5")).attempts.size(), 2U);
}

}  // namespace
}  // namespace sluice
