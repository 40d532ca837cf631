#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

/// What the launcher gave each rank of a node: processors, threads, a device.
namespace sluice {

/// An environment variable's value, null if it is not set.
using Environment = std::function<const char*(const char*)>;

/// Threads of a rank that is not told otherwise: SLURM_CPUS_PER_TASK, else OMP_NUM_THREADS, else 1.
[[nodiscard]] int default_threads(const Environment& variable);

/// What a rank was started with.
struct RankResources {
  int threads = 1;
  int cpu_count = 0;                 ///< that it may run on
  std::string cpus;                  ///< these, as Linux lists them: "0-3,8"
  std::vector<std::string> devices;  ///< that it may use, by the names that its environment gives them
  bool own_devices = false;          ///< no other rank may use them, even where those have the same names
  bool operator==(const RankResources&) const = default;
};

/// Of this process. Devices are those of CUDA_VISIBLE_DEVICES, else of SLURM_STEP_GPUS, else of SLURM_JOB_GPUS.
/// They are the rank's own where srun handed out --gpus-per-task.
[[nodiscard]] RankResources own_resources(const Environment& variable, int threads);

/// The device of each rank, as a position in its list: the ranks of a node that share a list take one each, in order.
/// @param node_of_rank, node_names  as Communicator's
/// @throws Error (bad input) naming node, ranks and devices where ranks share too few, or have none.
[[nodiscard]] std::vector<int> assign_devices(std::span<const RankResources> ranks, std::span<const int> node_of_rank,
                                              std::span<const std::string> node_names);

/// For people, one line a node: its ranks, and the device, threads and processors of each.
/// @param devices  what each rank computes on: "host", "cuda 1 of 0,1"
[[nodiscard]] std::vector<std::string> launch_lines(std::span<const RankResources> ranks,
                                                    std::span<const std::string> devices,
                                                    std::span<const int> node_of_rank,
                                                    std::span<const std::string> node_names);

/// What slows ranks down: more threads than processors to run on, one line for each set of processors.
[[nodiscard]] std::vector<std::string> launch_warnings(std::span<const RankResources> ranks,
                                                       std::span<const int> node_of_rank,
                                                       std::span<const std::string> node_names);

/// Gathers all ranks' resources, logs at rank 0 who runs where, and chooses this rank's device. Collective.
/// @param device  as in --device: "host" and "fake" are no devices to choose
/// @return the position of this rank's device among those that it sees, 0 if there is nothing to choose
/// @throws AgreedError (bad input) as assign_devices()
int arrange_ranks(Communicator& world, const std::string& device, int threads, const Environment& variable);

}  // namespace sluice
