// Multicasts between the test cluster's nodes: is every byte right at every member, and how many bytes did each node's
// network interface count? Started by srun or mpiexec on all nodes; rank 0 prints a line for each multicast and node.
// Exits with 1 if contents are wrong, or if an algorithm that is aware of nodes lets more (or less) than one copy in.
// usage: traffic_check [SEED]   SEED: ranks in a random order, too
#include <algorithm>
#include <fstream>
#include <iostream>

#include "core/error.h"
#include "core/route_choice.h"
#include "tests/cluster/traffic.h"

namespace sluice {
namespace {

constexpr std::int64_t kSizes[] = {1 << 20, 2'500'003};
constexpr double kMargin = 0.03;  ///< headers, acknowledgements and the barriers around each multicast

double interface_bytes(const char* direction) {
  std::ifstream file(text("/sys/class/net/eth0/statistics/", direction, "_bytes"));
  double bytes = 0;  // exact up to 2^53
  if (!(file >> bytes)) throw bad_input("no counters of eth0: this needs a node of the test cluster");
  return bytes;
}

class TrafficCheck {
 public:
  TrafficCheck(Communicator& world, unsigned seed)
      : world_(world), cluster_(cluster_of(world)), random_(seed), pattern_(random_bytes(8 << 20, seed)) {
    cluster_.inter_node = {.latency_s = 50e-6, .bandwidth_bytes_per_s = 117e6};
    cluster_.intra_node = {.latency_s = 2e-6, .bandwidth_bytes_per_s = 4e9};
  }

  /// @return failures, the same at all ranks
  int run() {
    if (world_.rank() == 0) std::cout << "# algorithm segment bytes group node received sent due\n";
    for (const NamedGroup& group : groups())
      for (const std::int64_t bytes : kSizes)
        for (const Algorithm algorithm : algorithms(CollectiveKind::multicast)) {
          const Route chosen = choose_route(CollectiveKind::multicast, group.group, bytes, cluster_, algorithm).route;
          check(group, chosen, bytes);
          if (chosen.segment_bytes > 0) check(group, {.algorithm = algorithm, .segment_bytes = 0}, bytes);
        }
    return failures_;
  }

 private:
  std::vector<NamedGroup> groups() {
    const int ranks = world_.size();
    std::vector<NamedGroup> groups{everybody(ranks, 0), everybody(ranks, ranks - 1), leaders(cluster_),
                                   two_consumers(cluster_)};
    groups.push_back({.name = "random", .group = random_group(random_, ranks)});
    std::erase_if(groups, [](const NamedGroup& group) { return group.group.members.size() < 2; });
    return groups;
  }

  void check(const NamedGroup& named, const Route& route, std::int64_t bytes) {
    const auto shift = pattern_.begin() + (calls_++ % 1000);  // so that yesterday's bytes are wrong today
    const Bytes expected(shift, shift + bytes);
    Bytes data = world_.rank() == named.group.root ? expected : Bytes(expected.size());
    const auto part = part_of(world_, named.group, route, bytes, cluster_);
    world_.barrier();
    const double received = interface_bytes("rx"), sent = interface_bytes("tx");
    world_.barrier();
    multicast(world_, part, data);
    world_.barrier();
    const double mine[] = {interface_bytes("rx") - received, interface_bytes("tx") - sent,
                           is_member(named.group, world_.rank()) && data != expected ? 1.0 : 0.0};
    judge(named, route, bytes, world_.all_gather(mine));
  }

  void judge(const NamedGroup& named, const Route& route, std::int64_t bytes, const std::vector<double>& figures) {
    const auto what = text(to_string(route.algorithm), ' ', route.segment_bytes, ' ', bytes, ' ', named.name);
    for (Rank rank = 0; rank < world_.size(); ++rank)
      if (figures[at(3 * rank + 2)] > 0) fail(text(what, ": wrong contents at rank ", rank));
    const std::vector<std::vector<Rank>> nodes = ranks_by_node(cluster_);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      const auto figure = [&](int index) {
        return static_cast<std::int64_t>(figures[at(3 * nodes[node].front() + index)]);
      };
      const std::int64_t received = figure(0), due = enters(named.group, static_cast<int>(node)) ? bytes : 0;
      if (world_.rank() == 0)
        std::cout << text(what, ' ', cluster_.node_names[node], ' ', received, ' ', figure(1), ' ', due, '\n');
      const bool within =
          due <= received && static_cast<double>(received - due) <= kMargin * static_cast<double>(bytes);
      if (aware_of_nodes(route.algorithm) && !within)
        fail(text(what, ": ", received, " bytes entered ", cluster_.node_names[node], ", due ", due));
    }
  }

  bool enters(const Group& group, int node) const {
    const auto is_here = [&](Rank rank) { return cluster_.ranks[at(rank)].node == node; };
    return !is_here(group.root) && std::any_of(group.members.begin(), group.members.end(), is_here);
  }

  void fail(const std::string& what) {
    ++failures_;
    if (world_.rank() == 0) std::cerr << "traffic_check: " << what << std::endl;
  }

  Communicator& world_;
  Cluster cluster_;
  std::mt19937 random_;
  Bytes pattern_;
  int calls_ = 0;
  int failures_ = 0;
};

int run(int argc, char** argv) {
  Communicator world = Communicator::world();
  if (argc == 1) return TrafficCheck(world, 1).run();
  const auto seed = static_cast<unsigned>(std::stoul(argv[1]));
  std::mt19937 random(seed);
  Communicator shuffled = world.permuted(random_order(random, world.size()));
  return TrafficCheck(shuffled, seed).run();
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  try {
    sluice::MpiSession session;
    const int code = sluice::run(argc, argv) == 0 ? 0 : 1;
    session.finish(code);
    return code;
  } catch (const sluice::Error& error) {
    std::cerr << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  }
}
