#include "runtime/comm/session.h"

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "core/text.h"
#include "runtime/comm/exit_guard.h"

namespace sluice {
namespace {

using Environment = std::map<std::string, std::string>;

std::string defect(int mpi_size, const Environment& environment) {
  return launch_defect(mpi_size, [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(LaunchDefect, names_the_fix_when_each_task_of_a_step_is_alone) {
  const std::string message = defect(1, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_NE(message.find("srun started 4 tasks"), std::string::npos) << message;
  EXPECT_NE(message.find("srun --mpi=pmi2"), std::string::npos) << message;
}

TEST(LaunchDefect, accepts_a_step_whose_ranks_found_each_other) {
  EXPECT_EQ(defect(4, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}), "");
}

TEST(LaunchDefect, accepts_a_step_of_one_task) {
  EXPECT_EQ(defect(1, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}}), "");
}

TEST(LaunchDefect, does_not_take_the_batch_script_for_a_step) {
  EXPECT_EQ(defect(1, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}}), "");
}

TEST(LaunchDefect, accepts_one_rank_of_mpiexec_inside_an_allocation) {
  const Environment environment{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"MPI_LOCALNRANKS", "1"}};
  EXPECT_EQ(defect(1, environment), "");
}

TEST(LaunchDefect, refuses_any_other_number_than_the_steps) {
  for (const int size : {2, 8}) {
    const std::string message = defect(size, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
    EXPECT_NE(message.find(text("started 4 tasks, but MPI sees ", size, ":")), std::string::npos) << message;
  }
}

TEST(LaunchDefect, accepts_an_mpi_that_spans_the_steps_of_a_heterogeneous_job) {
  EXPECT_EQ(defect(6, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_HET_SIZE", "2"}}), "");
}

TEST(LaunchDefect, names_the_mpiexec_of_another_mpi) {
  const std::string message = defect(1, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_NE(message.find("Open MPI's mpiexec started 4 tasks"), std::string::npos) << message;
}

TEST(LaunchDefect, accepts_a_machine_without_slurm) { EXPECT_EQ(defect(1, {}), ""); }

TEST(MpiSession, names_the_library_in_one_line) {
  const std::string version = MpiSession::library_version();
  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find_first_of("\n\t"), std::string::npos) << version;
}

TEST(ExitGuardDeathTest, leaves_with_the_given_code_when_the_call_does_not_return) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto stuck = [] {
    const ExitGuard guard(std::chrono::milliseconds(20), 7, "the call hangs");
    std::this_thread::sleep_for(std::chrono::seconds(60));
  };
  EXPECT_EXIT(stuck(), testing::ExitedWithCode(7), "the call hangs");
}

TEST(ExitGuardDeathTest, is_silent_when_the_call_returns) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto quick = [] {
    { const ExitGuard guard(std::chrono::hours(1), 7, "the call hangs"); }
    std::_Exit(0);
  };
  EXPECT_EXIT(quick(), testing::ExitedWithCode(0), "^$");
}

struct End {
  int code;
  std::string said;
};

End run_and_lose_a_peer(const char* how) {
  FILE* output = popen((std::string("timeout 30 " MPIEXEC " -n 2 " LOST_PEER " ") + how + " 2>&1").c_str(), "r");
  std::string said;
  for (int c = 0; (c = std::fgetc(output)) != EOF;) said += static_cast<char>(c);
  return {WEXITSTATUS(pclose(output)), said};
}

// Where one is killed mpiexec ends the others itself; tests/cluster/fault_test.sh has srun, which does not.
TEST(MpiSession, leaves_in_time_with_its_code_when_a_peer_was_lost) {
  const auto [code, said] = run_and_lose_a_peer("stop");
  EXPECT_NE(said.find("rank 0: MPI_Finalize did not return within 1 s; all files are closed, leaving with exit code 6"),
            std::string::npos)
      << said;
  EXPECT_TRUE(code == 6 || code == 9) << code << ": mpiexec then kills (9) the peer, and shows one of both";
}

TEST(MpiSession, does_not_wait_for_ever_for_a_peer_that_never_begins) {
  const auto [code, said] = run_and_lose_a_peer("absent");
  EXPECT_NE(said.find("MPI_Init_thread did not return within 1 s (SLUICE_WAIT_LIMIT): not all ranks are there"),
            std::string::npos)
      << said;
  EXPECT_TRUE(code == 1 || code == 9) << code << ": mpiexec kills (9) who has not left by then";
}

}  // namespace
}  // namespace sluice
