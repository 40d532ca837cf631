#include <iostream>

#include "core/storage/cluster_file.h"
#include "runtime/comm/probe.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/command/commands.h"
#include "runtime/engine/log.h"

namespace sluice {

namespace po = boost::program_options;

void probe_command(Communicator& world, const Words& words) {
  std::string output;
  double largest_mib = 0;
  po::options_description table("Measures the links between the job's ranks. Options");
  table.add_options()("output,o", po::value(&output)->required(), "cluster to write")  //
      ("largest-mib", po::value(&largest_mib)->default_value(16),
       "largest message between two ranks [MiB]; slow links need less, in less time");
  add_wait_limit(table, world);
  const auto values = parse_everywhere(world, {"sluice-run probe -o CLUSTER", table, {}}, words,
                                       [&](const auto&) { require_within("largest-mib", largest_mib, 1, 1024); });
  if (!values) return;

  on_rank_zero(world, [&] { check_writable(output, kClusterSchema); });
  const Cluster cluster =
      probe(world, {.largest_bytes = static_cast<std::int64_t>(largest_mib * (1 << 20)), .log = log_line});
  on_rank_zero(world, [&] {
    write_cluster(output, cluster, {command_line("sluice-run probe", words), resolved_options(*values)});
  });
  if (world.rank() == 0)
    std::cout << "cluster=" << output << " ranks=" << cluster.ranks.size() << " nodes=" << cluster.node_names.size()
              << " intra_bytes_per_s=" << cluster.intra_node.bandwidth_bytes_per_s
              << " inter_bytes_per_s=" << cluster.inter_node.bandwidth_bytes_per_s << '\n';
}

}  // namespace sluice
