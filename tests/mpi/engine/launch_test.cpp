#include "runtime/engine/launch.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>

#include "core/error.h"

namespace sluice {
namespace {

using Words = std::vector<std::string>;

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

RankResources sees(Words devices, bool own = false) { return {1, 4, "0-3", std::move(devices), own}; }

/// A step of srun that got `devices` on this node.
std::map<std::string, std::string> step(const std::string& devices) {
  return {{"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", devices}};
}

std::string refusal(const std::vector<RankResources>& ranks, const std::vector<int>& nodes, const Words& names) {
  try {
    (void)assign_devices(ranks, nodes, names);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    return error.what();
  }
  return "none";
}

TEST(Threads, are_what_slurm_gave_the_task_before_what_openmp_was_told) {
  EXPECT_EQ(default_threads(environment({{"SLURM_CPUS_PER_TASK", "6"}, {"OMP_NUM_THREADS", "2"}})), 6);
  EXPECT_EQ(default_threads(environment({{"OMP_NUM_THREADS", "2"}})), 2);
  EXPECT_EQ(default_threads(environment({{"OMP_NUM_THREADS", "4,2"}})), 4) << "nested regions";
  EXPECT_EQ(default_threads(environment({})), 1);
  EXPECT_EQ(default_threads(environment({{"SLURM_CPUS_PER_TASK", ""}, {"OMP_NUM_THREADS", "-1"}})), 1);
}

TEST(Resources, are_those_of_this_process) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(own_resources(environment({}), 3).cpu_count, CPU_COUNT(&all));
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(own_resources(environment({}), 3), (RankResources{3, 1, std::to_string(cpu), {}, false}));
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(Resources, hold_the_devices_that_cuda_would_see) {
  EXPECT_EQ(own_resources(environment(step("2,3")), 1).devices, (Words{"2", "3"}));
  EXPECT_EQ(own_resources(environment(step("GPU-a1,-1,3")), 1).devices, Words{"GPU-a1"})
      << "it stops at the invalid one";
  EXPECT_EQ(own_resources(environment(step("0, 1 ,MIG-5f/1/0")), 1).devices, (Words{"0", "1", "MIG-5f/1/0"}));
  EXPECT_EQ(own_resources(environment(step("NoDevFiles")), 1).devices, Words{});
  EXPECT_EQ(own_resources(environment({{"CUDA_VISIBLE_DEVICES", ""}, {"SLURM_JOB_GPUS", "1"}}), 1).devices, Words{});
  EXPECT_EQ(own_resources(environment({{"SLURM_STEP_GPUS", "1"}, {"SLURM_JOB_GPUS", "0,1"}}), 1).devices, Words{"1"});
  EXPECT_EQ(own_resources(environment({{"SLURM_JOB_GPUS", "0,1"}}), 1).devices, (Words{"0", "1"}));
}

TEST(Resources, are_the_ranks_own_where_srun_handed_them_out_by_task) {
  const auto own = [](const std::string& per_task, const std::string& devices, bool by_mpiexec = false) {
    auto variables = step(devices);
    variables["SLURM_GPUS_PER_TASK"] = per_task;
    if (by_mpiexec) variables["MPI_LOCALNRANKS"] = "2";
    return own_resources(environment(variables), 1).own_devices;
  };
  EXPECT_TRUE(own("1", "0"));
  EXPECT_TRUE(own("a100:2", "0,1"));
  EXPECT_FALSE(own("1", "0,1")) << "--gpu-bind=none";
  EXPECT_FALSE(own("1", "0", true)) << "what mpiexec starts shares its proxy's";
  EXPECT_FALSE(own_resources(environment(step("0")), 1).own_devices);
}

TEST(Devices, go_to_the_ranks_of_a_node_in_order) {
  const std::vector<RankResources> ranks(4, sees({"0", "1"}));
  EXPECT_EQ(assign_devices(ranks, std::vector{0, 0, 1, 1}, Words{"a", "b"}), (std::vector{0, 1, 0, 1}));
  EXPECT_EQ(assign_devices(ranks, std::vector{0, 1, 0, 1}, Words{"a", "b"}), (std::vector{0, 0, 1, 1})) << "cyclic";
}

TEST(Devices, are_each_ranks_first_where_each_sees_its_own) {
  EXPECT_EQ(assign_devices(std::vector{sees({"0"}), sees({"1"})}, std::vector{0, 0}, Words{"a"}), (std::vector{0, 0}));
  EXPECT_EQ(assign_devices(std::vector{sees({"0"}, true), sees({"0"}, true)}, std::vector{0, 0}, Words{"a"}),
            (std::vector{0, 0}))
      << "devices that cgroups hide from the other rank all are number 0";
}

TEST(Devices, follow_nodes_of_unequal_sizes) {
  const std::vector<RankResources> ranks{sees({"0", "1", "2"}), sees({"0", "1", "2"}), sees({"0", "1", "2"}),
                                         sees({"0"})};
  EXPECT_EQ(assign_devices(ranks, std::vector{0, 0, 0, 1}, Words{"a", "b"}), (std::vector{0, 1, 2, 0}));
}

TEST(Devices, that_are_too_few_are_refused_with_node_ranks_and_way_out) {
  EXPECT_EQ(
      refusal({sees({"0"}), sees({"0", "1"}), sees({"0", "1"}), sees({"0", "1"})}, {0, 1, 1, 1}, {"a", "b"}),
      "b: ranks 1-3 see 2 devices (0,1), and each needs one: ask for them with --gpus-per-task=1 (or --gres=gpu:3 "
      "on each node), or start fewer ranks on a node (--ntasks-per-node)");
  EXPECT_EQ(
      refusal({sees({})}, {0}, {"a"}),
      "a: rank 0 sees 0 devices, and each needs one: ask for them with --gpus-per-task=1 (or --gres=gpu:1 on each "
      "node), or start fewer ranks on a node (--ntasks-per-node)");
}

TEST(Launch, is_told_in_a_line_a_node) {
  const std::vector<RankResources> ranks{
      {2, 2, "0-1", {}, false}, {2, 2, "0-1", {}, false}, {2, 2, "2-3", {}, false}, {1, 1, "0", {}, false}};
  EXPECT_EQ(launch_lines(ranks, Words(4, "host"), std::vector{0, 0, 0, 1}, Words{"a", "b"}),
            (Words{"a: ranks 0-1: host, 2 threads on CPUs 0-1; rank 2: host, 2 threads on CPUs 2-3",
                   "b: rank 3: host, 1 thread on CPUs 0"}));
}

TEST(Launch, warns_of_threads_that_share_processors) {
  const std::vector<RankResources> ranks{
      {2, 2, "0-1", {}, false}, {1, 2, "0-1", {}, false}, {2, 2, "2-3", {}, false}, {4, 1, "0", {}, false}};
  const Words warnings = launch_warnings(ranks, std::vector{0, 0, 0, 1}, Words{"a", "b"});
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[0].find("warning: a: ranks 0-1: 3 threads for 2 CPUs (0-1) "), 0U) << warnings[0];
  EXPECT_EQ(warnings[1].find("warning: b: rank 3: 4 threads for 1 CPU (0) "), 0U) << warnings[1];
}

}  // namespace
}  // namespace sluice
