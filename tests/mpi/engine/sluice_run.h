#pragma once

// sluice-run as its users meet it: real processes, files and exit codes.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/cluster.h"
#include "core/error.h"
#include "core/text.h"
#include "optimizer/schedule/build_plan.h"
#include "tests/mpi/engine/training_reference.h"
#include "tests/unit/schedule/partition.h"

namespace sluice {

struct Outcome {
  int code = -1;
  std::string out, err;

  [[nodiscard]] int times(const std::string& phrase) const {
    int count = 0;
    for (std::size_t at = err.find(phrase); at != std::string::npos; at = err.find(phrase, at + 1)) ++count;
    return count;
  }
};

inline std::string contents(const std::filesystem::path& path) {
  std::ostringstream stream;
  stream << std::ifstream(path).rdbuf();
  return stream.str();
}

class SluiceRun : public testing::Test {
 protected:
  SluiceRun() {
    folder_ = std::filesystem::temp_directory_path() / text("sluice-run-test-", getpid());
    std::filesystem::create_directory(folder_);
    write_random_dataset(file("data.h5"), small_model(4), 5 * 3 * 4, 10);
  }
  ~SluiceRun() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

  [[nodiscard]] Outcome run(int ranks, const std::string& arguments) const {
    return run_job(text(launcher_options_, " -n ", ranks, " ", SLUICE_RUN, " ", arguments));
  }

  /// @param words  mpiexec's
  [[nodiscard]] Outcome run_job(const std::string& words) const {
    const std::string command =
        text("SLUICE_WAIT_LIMIT=60 ", MPIEXEC, " ", words, " >", file("out"), " 2>", file("err"));
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), contents(file("out")), contents(file("err"))};
  }

  [[nodiscard]] Outcome train(int ranks, const std::string& plan, const std::string& more) const {
    return run(ranks, text("train --plan ", file(plan), " --data ", file("data.h5"),
                           " --learning-rate 0.05 --momentum 0.9 --weight-decay 0.001 --seed 3 ", more));
  }

  /// MPICH takes the ranks for two nodes, block-wise.
  [[nodiscard]] Outcome train_on_two_nodes(int ranks, const std::string& plan, const std::string& more) const {
    setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
    setenv("MPIR_CVAR_CLIQUES_BY_BLOCK", "1", 1);
    Outcome outcome = train(ranks, plan, more);
    unsetenv("MPIR_CVAR_NUM_CLIQUES");
    unsetenv("MPIR_CVAR_CLIQUES_BY_BLOCK");
    return outcome;
  }

  [[nodiscard]] static Plan plan(const Model& model, const std::string& schedule, const Cluster& cluster,
                                 const Partition& partition, int microbatches = 3) {
    const Profile profile = even_profile(model);
    return build_plan({.profile = profile,
                       .cluster = cluster,
                       .schedule = schedule,
                       .microbatches = microbatches,
                       .stages = stages_of(partition)});
  }
  [[nodiscard]] static Plan plan(const Model& model, const std::string& schedule, int nodes, int ranks_per_node,
                                 const Partition& partition, int microbatches = 3) {
    return plan(model, schedule, uniform_cluster(nodes, ranks_per_node, {}, {}), partition, microbatches);
  }

  /// The stages must be of small_model(4).
  [[nodiscard]] static Plan plan_of(const std::vector<Stage>& stages, int ranks) {
    const Profile profile = even_profile(small_model(4));
    const Cluster cluster = uniform_cluster(1, ranks, {}, {});
    return build_plan(
        {.profile = profile, .cluster = cluster, .schedule = "1f1b", .microbatches = 3, .stages = stages});
  }

  [[nodiscard]] static Plan two_rank_plan() { return plan(small_model(4), "1f1b", 1, 2, {{0, 7, 13}, {0, 5, 13}}); }

  /// By rank: the processes whose command line names this test's folder.
  [[nodiscard]] std::map<int, pid_t> find_processes() const {
    std::map<int, pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string environment = '\0' + contents(entry.path() / "environ");
      const std::size_t rank = environment.find(std::string("\0PMI_RANK=", 10));
      if (rank == std::string::npos || contents(entry.path() / "cmdline").find(folder_) == std::string::npos) continue;
      found[std::atoi(environment.c_str() + rank + 10)] = std::atoi(entry.path().filename().c_str());
    }
    return found;
  }

  /// All ranks left with `code` and said `phrase` once; nothing is under the results' name.
  void expect_refused(const Outcome& outcome, ExitCode code, const std::string& phrase) const {
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.err;
    EXPECT_EQ(outcome.times(phrase), 1) << phrase << " should be said once in:\n" << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(file("results.h5")));
  }

  std::filesystem::path folder_;
  std::string launcher_options_;
};

}  // namespace sluice
