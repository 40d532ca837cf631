// MSR's throughput workloads: our optima and CPU seconds beside those of its dynamic program, and what dropping
// co-location gains. Run from the top of the source tree; prints the table of docs/planner.md.
#include <ctime>
#include <iomanip>
#include <iostream>

#include "core/text.h"
#include "optimizer/import/msr.h"
#include "optimizer/solver/msr_price.h"

namespace sluice {
namespace {

struct Workload {
  const char* name;
  const char* optimum_ms;  ///< of its dynamic program
  const char* cpu_s;
};

constexpr Workload kWorkloads[] = {
    {"LayerGraphs/gnmt_inference", "32.9107", "18.5"},
    {"LayerGraphs/gnmt_training", "107.004", "33"},
    {"LayerGraphs/resnet50_inference", "33.7747", "0.14"},
    {"LayerGraphs/resnet50_training", "78.6318", "0.24"},
    {"LayerGraphs/inceptionv3_inference", "unfinished", "> 872"},
    {"LayerGraphs/inceptionv3_training", "not run", "-"},
    {"OperatorGraphs/bert_l-3_inference", "27.9186", "1.0"},
    {"OperatorGraphs/bert_l-3_training", "65.3031", "5.9"},
    {"OperatorGraphs/bert_l-12_inference", "147.478", "16"},
    {"OperatorGraphs/bert_L-12_training", "437.998", "35"},
    {"OperatorGraphs/resnet50_inference", "124.349", "0.18"},
    {"OperatorGraphs/resnet50_training", "255.194", "0.39"},
};

struct Timed {
  Solution solution;
  double cpu_s = 0;
};

Timed solve(const Profile& profile, Cuts cuts) {
  const std::clock_t begin = std::clock();
  Timed timed{solve_msr({profile, *profile.cluster, {}, {.cuts = cuts}}, kNoDeadline)};
  timed.cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  return timed;
}

void print_row(const Workload& workload) {
  const Profile profile = import_msr(text("tests/data/dnn-partitioning/throughput-inputs/", workload.name, ".json"));
  const Timed joint = solve(profile, Cuts::joint), apart = solve(profile, Cuts::independent);
  std::cout << std::setprecision(6) << "| " << workload.name << " | " << workload.optimum_ms << " | " << workload.cpu_s
            << " | " << joint.solution.price * 1e3 << (is_optimal(joint.solution) ? "" : "?") << " | "
            << std::setprecision(2) << joint.cpu_s << " | " << std::setprecision(6) << apart.solution.price * 1e3
            << " | " << apart.solution.lower_bound * 1e3 << " | " << std::setprecision(2) << apart.cpu_s << " |"
            << std::endl;
}

}  // namespace
}  // namespace sluice

int main() {
  std::cout << "| workload | its optimum [ms] | CPU s | ours | CPU s | without co-location | bound | CPU s |\n"
               "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& workload : sluice::kWorkloads) sluice::print_row(workload);
}
