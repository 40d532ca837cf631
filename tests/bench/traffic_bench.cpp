// How long multicasts take on the test cluster, by group, size and algorithm, beside what the model says. Started by
// srun or mpiexec (traffic_bench.sh); rank 0 prints one line of CSV for each algorithm of a cell. The algorithms of a
// cell take turns, so that whatever else the machine does meets all of them.
// usage: traffic_bench CLUSTER_FILE LARGEST_BYTES SECONDS_PER_CELL GROUP...   (all, leaders, two-on-one-node)
#include <ctime>
#include <iostream>

#include "core/error.h"
#include "core/route_choice.h"
#include "core/statistics.h"
#include "core/storage/cluster_file.h"
#include "tests/cluster/traffic.h"

namespace sluice {
namespace {

constexpr int kFewestRounds = 3, kMostRounds = 100;
constexpr double kHeadStart = 0.001;  ///< in which the members get to their receives [s]

/// The nodes are namespaces of one machine: they share this clock.
double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// From the root's start until the last member has the payload [s].
double time_once(Communicator& world, const Group& group, const std::shared_ptr<const CollectivePart>& part,
                 Bytes& data) {
  world.barrier();
  const bool is_root = world.rank() == group.root;
  const double start = now() + (is_root ? kHeadStart : 0);
  while (is_root && now() < start) world.progress();
  multicast(world, part, data);
  double times[] = {part ? now() : 0, is_root ? start : 0};
  world.all_max(times);
  return times[0] - times[1];
}

/// One way to multicast, and the algorithms to which it belongs: in a group on two nodes, several are one.
struct Way {
  std::vector<Algorithm> algorithms;
  RouteChoice choice;
  std::vector<Move> moves;
  std::shared_ptr<const CollectivePart> part;
  std::vector<double> times = {};
};

std::vector<Way> ways_of(Communicator& world, const Group& group, std::int64_t bytes, const Cluster& cluster) {
  std::vector<Way> ways;
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast)) {
    const RouteChoice choice = choose_route(CollectiveKind::multicast, group, bytes, cluster, algorithm);
    const std::vector<Move> moves = multicast_moves(group, choice.route, bytes, cluster);
    const auto same = std::find_if(ways.begin(), ways.end(), [&](const Way& way) {
      return aware_of_nodes(algorithm) && aware_of_nodes(way.algorithms[0]) && way.moves == moves;
    });
    if (same == ways.end())
      ways.push_back({{algorithm}, choice, moves, part_of(world, group, choice.route, bytes, cluster)});
    else
      same->algorithms.push_back(algorithm);
  }
  return ways;
}

void print(const NamedGroup& named, std::int64_t bytes, const Way& way, Algorithm chosen) {
  for (const Algorithm algorithm : way.algorithms)
    std::cout << text(named.name, ',', bytes, ',', to_string(algorithm), ',', way.choice.route.segment_bytes, ',',
                      median(way.times), ',', way.choice.seconds, ',', algorithm == chosen, '\n')
              << std::flush;
}

void measure_cell(Communicator& world, const NamedGroup& named, std::int64_t bytes, double seconds,
                  const Cluster& cluster) {
  Bytes data(static_cast<std::size_t>(bytes));
  std::vector<Way> ways = ways_of(world, named.group, bytes, cluster);
  const auto play_round = [&] {
    for (Way& way : ways) way.times.push_back(time_once(world, named.group, way.part, data));
  };
  play_round();
  double first = 0;
  for (const Way& way : ways) first += way.times[0] + kHeadStart;
  const int rounds = std::clamp(static_cast<int>(seconds / first), kFewestRounds, kMostRounds);
  if (rounds > kFewestRounds)
    for (Way& way : ways) way.times.clear();  // a warm-up, where one more round is cheap
  while (std::ssize(ways.front().times) < rounds) play_round();
  const Algorithm chosen = choose_route(CollectiveKind::multicast, named.group, bytes, cluster).route.algorithm;
  for (const Way& way : ways)
    if (world.rank() == 0) print(named, bytes, way, chosen);
}

int run(int argc, char** argv) {
  if (argc < 5) throw usage_error("usage: traffic_bench CLUSTER_FILE LARGEST_BYTES SECONDS_PER_CELL GROUP...");
  Communicator world = Communicator::world();
  const Cluster cluster = read_cluster(argv[1]);
  const std::int64_t largest = std::stoll(argv[2]);
  const NamedGroup known[] = {everybody(world.size(), 0), leaders(cluster), two_consumers(cluster)};
  for (int i = 4; i < argc; ++i)
    for (const NamedGroup& named : known)
      for (std::int64_t bytes = 1024; named.name.starts_with(argv[i]) && bytes <= largest; bytes *= 4)
        measure_cell(world, named, bytes, std::stod(argv[3]), cluster);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::MpiSession session;
    const int code = sluice::run(argc, argv);
    session.finish(code);
    return code;
  } catch (const sluice::Error& error) {
    std::cerr << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  }
}
