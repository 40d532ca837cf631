#include "core/algorithm.h"

#include <algorithm>
#include <array>

#include "core/text.h"

namespace sluice {

const char* to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::multicast:
      return "multicast";
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::all_to_all:
      return "all_to_all";
  }
  return "unknown";
}

const char* to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::flat:
      return "flat";
    case Algorithm::mpi:
      return "mpi";
    case Algorithm::hierarchical:
      return "hierarchical";
    case Algorithm::binomial:
      return "binomial";
    case Algorithm::chain:
      return "chain";
    case Algorithm::tree:
      return "tree";
    case Algorithm::scatter_allgather:
      return "scatter_allgather";
    case Algorithm::ring:
      return "ring";
  }
  return "unknown";
}

std::span<const Algorithm> algorithms(CollectiveKind kind) {
  static constexpr std::array kMulticast{
      Algorithm::flat,  Algorithm::mpi,  Algorithm::hierarchical,     Algorithm::binomial,
      Algorithm::chain, Algorithm::tree, Algorithm::scatter_allgather};
  static constexpr std::array kAllReduce{Algorithm::ring, Algorithm::hierarchical};
  static constexpr std::array kAllToAll{Algorithm::flat, Algorithm::hierarchical};
  switch (kind) {
    case CollectiveKind::multicast:
      return kMulticast;
    case CollectiveKind::all_reduce:
      return kAllReduce;
    case CollectiveKind::all_to_all:
      return kAllToAll;
  }
  return {};
}

bool knows(Algorithm algorithm, CollectiveKind kind) {
  const auto known = algorithms(kind);
  return std::find(known.begin(), known.end(), algorithm) != known.end();
}

std::string algorithm_names(CollectiveKind kind) {
  std::string names;
  for (const Algorithm algorithm : algorithms(kind)) names += text(names.empty() ? "" : ", ", to_string(algorithm));
  return names;
}

bool aware_of_nodes(Algorithm algorithm) { return algorithm != Algorithm::flat && algorithm != Algorithm::mpi; }

}  // namespace sluice
