#include <cstdlib>
#include <iostream>
#include <sstream>

#include "runtime/engine/agreement.h"
#include "runtime/engine/command/commands.h"
#include "runtime/engine/launch.h"

namespace sluice {

namespace po = boost::program_options;

void add_wait_limit(po::options_description& table, const Communicator& world) {
  table.add_options()("wait-limit", po::value<double>()->default_value(world.wait_limit()),
                      "seconds that a rank waits for another before it ends the job; 0: for ever");
}

void add_threads(po::options_description& table, int& threads) {
  table.add_options()("threads", po::value(&threads)->default_value(default_threads(std::getenv)),
                      "threads per rank; default: SLURM_CPUS_PER_TASK, else OMP_NUM_THREADS, else 1");
}

std::optional<po::variables_map> parse_everywhere(Communicator& world, const CommandSyntax& syntax, const Words& words,
                                                  const std::function<void(const po::variables_map&)>& check) {
  std::optional<po::variables_map> values;
  std::ostringstream help;
  collectively(world, [&] {
    values = parse_options(syntax, words, help);
    if (!values) return;
    require_within("wait-limit", (*values)["wait-limit"].as<double>(), 0, kMostWaitLimit_s);
    if (check) check(*values);
  });
  if (values) world.set_wait_limit((*values)["wait-limit"].as<double>());
  if (world.rank() == 0) std::cout << help.str();
  return values;
}

}  // namespace sluice
