#include "runtime/engine/launch.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/log.h"

namespace sluice {
namespace {

/// The number that `words` begins with ("4,2" for nested OpenMP: 4), 0 if there is none above 0.
int leading_number(const char* words) {
  int number = 0;
  if (words != nullptr) std::from_chars(words, words + std::strlen(words), number);
  return std::max(number, 0);
}

/// {0, 1, 2, 8} as "0-2,8".
std::string ranges(std::span<const int> sorted) {
  std::string list;
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    for (end = begin + 1; end < sorted.size() && sorted[end] == sorted[end - 1] + 1; ++end) {
    }
    list += text(list.empty() ? "" : ",", sorted[begin]);
    if (end > begin + 1) list += text("-", sorted[end - 1]);
  }
  return list;
}

std::string ranks_text(std::span<const Rank> ranks) {
  return text(ranks.size() == 1 ? "rank " : "ranks ", ranges(ranks));
}

std::string joined(std::span<const std::string> words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
  return list;
}

std::vector<int> allowed_cpus() {
  // Machines with more processors than a cpu_set_t holds want a larger set.
  for (int most = CPU_SETSIZE; most <= (1 << 20); most *= 2) {
    std::vector<cpu_set_t> set(at(most / CPU_SETSIZE));
    const std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < most; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set.data())) cpus.push_back(cpu);
    return cpus;
  }
  return {};
}

/// CUDA takes no device from the first invalid name on ("-1", "NoDevFiles").
std::vector<std::string> device_list(const std::string& words) {
  std::vector<std::string> devices;
  std::istringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');) {
    std::erase(word, ' ');
    if (word.empty() || word.front() == '-' || word == "NoDevFiles") break;
    devices.push_back(word);
  }
  return devices;
}

std::vector<std::string> visible_devices(const Environment& variable) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (const char* words = variable(name)) return device_list(words);
  return {};
}

/// "2" and "gpu:a100:2" are 2. What mpiexec starts shares the devices of its node's one task.
int gpus_per_task(const Environment& variable) {
  const char* words = variable("SLURM_GPUS_PER_TASK");
  if (words == nullptr || variable("SLURM_STEP_ID") == nullptr || variable("MPI_LOCALNRANKS") != nullptr) return 0;
  const char* colon = std::strrchr(words, ':');
  return leading_number(colon == nullptr ? words : colon + 1);
}

std::string packed(const RankResources& mine) {
  return text(mine.threads, ' ', mine.cpu_count, ' ', mine.cpus.empty() ? "none" : mine.cpus, ' ', mine.own_devices,
              ' ', joined(mine.devices));
}

RankResources unpacked(const std::string& words) {
  RankResources resources;
  std::string devices;
  std::istringstream(words) >> resources.threads >> resources.cpu_count >> resources.cpus >> resources.own_devices >>
      devices;
  resources.devices = device_list(devices);
  return resources;
}

/// Ranks of which `key` says the same; ranks ascend, and so do the groups' first ones.
template <typename Key>
auto grouped(std::size_t ranks, const Key& key) {
  std::map<decltype(key(Rank{})), std::vector<Rank>> by_key;
  for (Rank rank = 0; rank < static_cast<Rank>(ranks); ++rank) by_key[key(rank)].push_back(rank);
  std::vector<std::pair<decltype(key(Rank{})), std::vector<Rank>>> groups(by_key.begin(), by_key.end());
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.second[0] < b.second[0]; });
  return groups;
}

}  // namespace

int default_threads(const Environment& variable) {
  for (const char* name : {"SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"})
    if (const int threads = leading_number(variable(name)); threads > 0) return threads;
  return 1;
}

RankResources own_resources(const Environment& variable, int threads) {
  const std::vector<int> cpus = allowed_cpus();
  RankResources mine{threads, static_cast<int>(cpus.size()), ranges(cpus), visible_devices(variable), false};
  mine.own_devices = !mine.devices.empty() && gpus_per_task(variable) == std::ssize(mine.devices);
  return mine;
}

std::vector<int> assign_devices(std::span<const RankResources> ranks, std::span<const int> node_of_rank,
                                std::span<const std::string> node_names) {
  std::vector<int> chosen(ranks.size(), 0);
  const auto sharers = grouped(ranks.size(), [&](Rank rank) {
    const RankResources& mine = ranks[at(rank)];
    return std::tuple(node_of_rank[at(rank)], joined(mine.devices), mine.own_devices ? rank : 0);
  });
  for (const auto& [key, group] : sharers) {
    const auto& [node, list, unused] = key;
    const auto devices = std::ssize(ranks[at(group.front())].devices);
    if (std::ssize(group) > devices)
      throw bad_input(text(node_names[at(node)], ": ", ranks_text(group), " see", group.size() == 1 ? "s " : " ",
                           devices, devices == 1 ? " device" : " devices", devices == 0 ? "" : " (" + list + ")",
                           ", and each needs one: ask for them with --gpus-per-task=1 (or --gres=gpu:", group.size(),
                           " on each node), or start fewer ranks on a node (--ntasks-per-node)"));
    for (std::size_t i = 0; i < group.size(); ++i) chosen[at(group[i])] = static_cast<int>(i);
  }
  return chosen;
}

std::vector<std::string> launch_lines(std::span<const RankResources> ranks, std::span<const std::string> devices,
                                      std::span<const int> node_of_rank, std::span<const std::string> node_names) {
  const auto alike = grouped(ranks.size(), [&](Rank rank) {
    const RankResources& mine = ranks[at(rank)];
    return std::pair(node_of_rank[at(rank)], text(devices[at(rank)], ", ", mine.threads,
                                                  mine.threads == 1 ? " thread" : " threads", " on CPUs ", mine.cpus));
  });
  std::vector<std::string> lines(node_names.begin(), node_names.end());
  std::vector<bool> begun(lines.size());
  for (const auto& [key, group] : alike) {
    const auto& [node, words] = key;
    lines[at(node)] += text(begun[at(node)] ? "; " : ": ", ranks_text(group), ": ", words);
    begun[at(node)] = true;
  }
  return lines;
}

std::vector<std::string> launch_warnings(std::span<const RankResources> ranks, std::span<const int> node_of_rank,
                                         std::span<const std::string> node_names) {
  std::vector<std::string> warnings;
  const auto together =
      grouped(ranks.size(), [&](Rank rank) { return std::pair(node_of_rank[at(rank)], ranks[at(rank)].cpus); });
  for (const auto& [key, group] : together) {
    const auto& [node, cpus] = key;
    int threads = 0;
    for (const Rank rank : group) threads += ranks[at(rank)].threads;
    const int cpu_count = ranks[at(group.front())].cpu_count;
    if (threads > cpu_count)
      warnings.push_back(text("warning: ", node_names[at(node)], ": ", ranks_text(group), ": ", threads,
                              " threads for ", cpu_count, cpu_count == 1 ? " CPU (" : " CPUs (", cpus,
                              ") wait for each other: take fewer --threads or ranks, or more --cpus-per-task, "
                              "which srun must be told again"));
  }
  return warnings;
}

int arrange_ranks(Communicator& world, const std::string& device, int threads, const Environment& variable) {
  const std::string mine = packed(own_resources(variable, threads));
  std::vector<RankResources> ranks;
  for (Rank rank = 0; rank < world.size(); ++rank) ranks.push_back(unpacked(world.broadcast(mine, rank)));

  const bool choose = device != "host" && device != "fake";
  std::vector<int> chosen(ranks.size(), 0);
  if (choose) collectively(world, [&] { chosen = assign_devices(ranks, world.node_of_rank(), world.node_names()); });
  std::vector<std::string> devices(ranks.size(), device);
  for (std::size_t rank = 0; choose && rank < ranks.size(); ++rank)
    devices[rank] += text(" ", chosen[rank], " of ", joined(ranks[rank].devices));
  if (world.rank() == 0) {
    for (const std::string& line : launch_lines(ranks, devices, world.node_of_rank(), world.node_names()))
      log_line(line);
    for (const std::string& line : launch_warnings(ranks, world.node_of_rank(), world.node_names())) log_line(line);
  }
  return chosen[at(world.rank())];
}

}  // namespace sluice
