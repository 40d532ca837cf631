// Training jobs that lose a rank: how long they last, what they say and what they leave behind.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <thread>

#include "core/storage/plan_file.h"
#include "core/storage/results_file.h"
#include "tests/mpi/engine/sluice_run.h"

namespace sluice {
namespace {

constexpr int kRanks = 3;

class Fault : public SluiceRun {
 protected:
  Fault() { write_plan(file("plan.h5"), plan(small_model(4), "1f1b", 1, kRanks, {{0, 6, 9, 13}, {0, 3, 8, 13}})); }

  /// Trains for ever, until `signal` meets `rank` after some steps.
  [[nodiscard]] Outcome train_until(int signal, int rank) {
    const std::string words = text("--steps 100000000 --wait-limit 2 -o ", file("results.h5"));
    auto outcome = std::async(std::launch::async, [&] { return train(kRanks, "plan.h5", words); });
    while (contents(file("err")).find("step 1/") == std::string::npos && outcome.wait_for(kTick) != kEnded) {
    }
    processes_ = find_processes();
    EXPECT_EQ(processes_.size(), static_cast<std::size_t>(kRanks));
    if (processes_.contains(rank)) kill(processes_[rank], signal);
    const bool ended = outcome.wait_for(std::chrono::seconds(60)) == kEnded;
    EXPECT_TRUE(ended) << "the job hangs:\n" << contents(file("err"));
    for (const auto& [any, process] : processes_)
      if (!ended) kill(process, SIGKILL);
    return outcome.get();
  }

  /// Nobody is left; what was recorded can be read, and does not pass for a whole run.
  void expect_tidy_end() const {
    for (int i = 0; i < 100 && !find_processes().empty(); ++i) std::this_thread::sleep_for(kTick);
    EXPECT_TRUE(find_processes().empty());
    EXPECT_FALSE(std::filesystem::exists(file("results.h5")));
    EXPECT_FALSE(read_results(file("results.h5")).merged);
  }

  static constexpr std::chrono::milliseconds kTick{50};
  static constexpr std::future_status kEnded = std::future_status::ready;
  std::map<int, pid_t> processes_;  ///< by rank, before the fault
};

TEST_F(Fault, a_rank_that_is_stopped_is_named_by_those_that_wait_for_it) {
  const Outcome outcome = train_until(SIGSTOP, 1);
  EXPECT_EQ(outcome.code, static_cast<int>(ExitCode::runtime_fault)) << outcome.err;
  EXPECT_GE(outcome.times("sluice-run: rank "), 1) << outcome.err;
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_LE(outcome.times(text("sluice-run: rank ", rank, " (")), rank == 1 ? 0 : 1) << outcome.err;
  EXPECT_EQ(outcome.times("no answer from rank 1 (world rank 1 on "), outcome.times("sluice-run: rank "))
      << outcome.err;
  EXPECT_EQ(outcome.times("the limit is 2 s (--wait-limit"), outcome.times("sluice-run: rank ")) << outcome.err;
  expect_tidy_end();
  EXPECT_GE(read_results(file("results.h5")).tables.steps.size(), 1U);
}

TEST_F(Fault, a_rank_that_is_killed_ends_the_job_at_once) {
  const Outcome outcome = train_until(SIGKILL, 2);
  EXPECT_EQ(outcome.code, SIGKILL) << "what mpiexec makes of it\n" << outcome.err;
  expect_tidy_end();
}

TEST_F(Fault, a_flipped_bit_is_found_only_where_transfers_are_verified) {
  const auto train_with = [&](const std::string& launcher_options, const std::string& more) {
    launcher_options_ = launcher_options;
    return train(kRanks, "plan.h5", text("--steps 3 --wait-limit 20 ", more, " -o ", file("results.h5")));
  };
  const std::string flip = text("-genv LD_PRELOAD ", FLIP_BIT, " -genv SLUICE_TEST_FLIP_BIT '0 2 200'");
  const auto losses = [&] {
    std::vector<float> losses;
    for (const StepRecord& step : read_results(file("results.h5")).tables.steps) losses.push_back(step.loss);
    std::filesystem::remove(file("results.h5"));
    return losses;
  };
  ASSERT_EQ(train_with("", "").code, 0);
  const std::vector<float> right = losses();
  ASSERT_EQ(train_with("", "--verify-transfers").code, 0);
  EXPECT_EQ(losses(), right);

  const Outcome unnoticed = train_with(flip, "");
  EXPECT_EQ(unnoticed.code, 0) << unnoticed.err;
  EXPECT_NE(losses(), right);

  const Outcome found = train_with(flip, "--verify-transfers");
  EXPECT_EQ(found.code, static_cast<int>(ExitCode::runtime_fault)) << found.err;
  for (const char* part : {"sluice-run: rank ", "receiving from rank 0 (world rank 0 on ",
                           "are not those that were sent", "program step, instruction ", "all other ranks answer"})
    EXPECT_EQ(found.times(part), 1) << part << " should be said once in:\n" << found.err;
  expect_tidy_end();
}

}  // namespace
}  // namespace sluice
