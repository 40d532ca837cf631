// For fault_test.sh. Usage: endless_multicasts BYTES WAIT_LIMIT [ABSENT_RANK]: rank 0 sends to all again and again;
// after the first three the absent rank takes part no more, but goes on with other work.
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>

#include "core/cluster.h"
#include "core/error.h"
#include "core/text.h"
#include "runtime/comm/communicator.h"

namespace sluice {
namespace {

struct Task {
  std::int64_t bytes = 0;
  double wait_limit_s = 0;
  Rank absent = kNone;
};

void multicast_for_ever(Communicator& world, const Task& task, std::vector<char>& data) {
  Cluster cluster;
  cluster.node_names = world.node_names();
  for (const int node : world.node_of_rank()) cluster.ranks.push_back({.node = node});
  Group everyone{.members = std::vector<Rank>(static_cast<std::size_t>(world.size()))};
  std::iota(everyone.members.begin(), everyone.members.end(), 0);
  const auto part =
      world.prepare(CollectiveKind::multicast, everyone, {.algorithm = Algorithm::hierarchical}, task.bytes, cluster);
  for (int i = 1;; ++i) {
    while (world.rank() == task.absent && i > 3) world.progress();
    Operation operation = world.start(part, data.data(), 0, {});
    world.wait(operation);
    if (world.rank() == 0 && i == 1) std::cerr << "step 1/" << std::endl;
  }
}

int run(const Task& task) {
  MpiSession session;
  Communicator world = Communicator::world();
  world.set_wait_limit(task.wait_limit_s);
  std::vector<char> data(static_cast<std::size_t>(task.bytes));
  try {
    multicast_for_ever(world, task, data);
  } catch (const AlarmHeard& error) {
    world.leave(static_cast<int>(error.exit_code()));
  } catch (const Error& error) {
    const std::string answers = world.call_off(1);
    std::cerr << text("sluice-run: ", world.whoami(), ": ", error.what(), "; ", answers, "\n");
    world.leave(1);
  }
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return sluice::run({.bytes = std::atol(argv[1]),
                      .wait_limit_s = std::atof(argv[2]),
                      .absent = argc > 3 ? std::atoi(argv[3]) : sluice::kNone});
}
