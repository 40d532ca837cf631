// Instructions per CPU second of the simulator under 1f1b, from a stored program and from a stream, and the peak memory
// of each: every row runs in a process of its own. make bench.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/simulator.h"
#include "optimizer/schedule/stream.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Nodes of 8 ranks; 1 ms forward, 2 ms backward.
void simulate_line(const char* kind, int ranks, int microbatches, bool stored) {
  const Profile profile = examples::chain(ranks, 1e-3, 2e-3);
  const Cluster cluster =
      uniform_cluster((ranks + 7) / 8, std::min(ranks, 8), {.latency_s = 1e-6, .bandwidth_bytes_per_s = 1e9},
                      {.latency_s = 5e-6, .bandwidth_bytes_per_s = 1e8});
  const PlanRequest request{.profile = profile,
                            .cluster = cluster,
                            .schedule = "1f1b",
                            .microbatches = microbatches,
                            .stages = stages_of(examples::even_partition(ranks, ranks))};
  const double begin_s = cpu_s();
  StreamedPlan made = stored ? StreamedPlan{build_plan(request), nullptr} : stream_plan(request);
  if (stored) made.step = std::make_unique<ProgramSource>(program(made.plan, "step"));
  const double make_s = cpu_s() - begin_s;
  const double start_s = cpu_s();
  SimulationTotals totals(ranks);
  simulate(made.plan, *made.step, totals);
  const double run_s = cpu_s() - start_s;
  const double count = static_cast<double>(totals.instructions());
  std::printf("%-7s %5d x %5d %12.0f %9.2f %9.2f %9.2f %12.6f %8.4f", kind, ranks, microbatches, count, make_s, run_s,
              1e-6 * count / run_s, 1e-9 * static_cast<double>(totals.makespan_ns()), totals.bubble_fraction());
  std::fflush(stdout);
}

void print_row(const char* kind, int ranks, int microbatches, bool stored) {
  const pid_t child = fork();
  if (child == 0) {
    simulate_line(kind, ranks, microbatches, stored);
    _exit(0);
  }
  rusage usage{};
  if (child < 0 || wait4(child, nullptr, 0, &usage) != child) return std::perror("fork");
  std::printf(" %8.1f\n", static_cast<double>(usage.ru_maxrss) / 1024);
  std::fflush(stdout);
}

}  // namespace
}  // namespace sluice

int main() {
  std::printf("%-7s %13s %12s %9s %9s %9s %12s %8s %8s\n", "1f1b", "ranks x M", "instructions", "make s", "run s",
              "million/s", "step s", "bubble", "peak MiB");
  std::fflush(stdout);  // or the rows' processes print it again
  for (const auto& [ranks, microbatches] : {std::pair{8, 4096}, {64, 1024}, {256, 256}})
    sluice::print_row("stored", ranks, microbatches, true);
  for (const auto& [ranks, microbatches] : {std::pair{8, 4096}, {64, 1024}, {256, 256}, {1024, 1024}, {4096, 4096}})
    sluice::print_row("stream", ranks, microbatches, false);
}
