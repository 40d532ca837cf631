#pragma once

#include <string>

#include "core/cluster.h"
#include "core/storage/reader.h"
#include "core/storage/writer.h"

namespace sluice {

/// Reads a file of schema sluice/cluster and validates it.
/// @throws Error (bad input) naming file, dataset and value
[[nodiscard]] Cluster read_cluster(const std::string& path);

/// @throws Error (bad input) if the cluster is not valid or the path cannot be
///         written, (runtime fault) if the disk is full
void write_cluster(const std::string& path, const Cluster& cluster, const Provenance& provenance = {});

/// The same contents in a group of another file.
[[nodiscard]] Cluster read_cluster(const GroupReader& group);
void write_cluster(const GroupWriter& group, const Cluster& cluster);

}  // namespace sluice
