#pragma once

#include <optional>

#include "core/cluster.h"
#include "core/command/options.h"

namespace sluice {

/// Adds --cluster, --ranks and the options that describe a cluster instead of a file.
void add_cluster_options(boost::program_options::options_description& table);

struct ChosenCluster {
  Cluster cluster;         ///< exactly the ranks to plan for
  std::string assumption;  ///< what was assumed because nobody said it; empty if nothing was
};

/// --cluster FILE, its first --ranks ranks (all if not given); or --nodes times
/// --ranks-per-node ranks with the links and memory given; what is not given of
/// the links is assumed. Where no option says anything, the devices that the profile came with, if any.
/// @throws Error (usage) for options that contradict each other, (infeasible) for
/// more ranks than the file has, (bad input) for a file that cannot be read
[[nodiscard]] ChosenCluster cluster_from(const boost::program_options::variables_map& values,
                                         const std::optional<Cluster>& of_profile);

}  // namespace sluice
