#pragma once

#include <bitset>
#include <cstddef>
#include <vector>

#include "optimizer/solver/problem.h"

/// What enumeration chooses from.
namespace sluice {

inline constexpr int kMostLayers = 256;  ///< of a model that is enumerated
using LayerSet = std::bitset<kMostLayers>;

/// The sets of layers that the first workers of a pipeline can have: prefixes of the
/// order, or ideals of the DAG. From the empty set to all layers, smaller ones first.
/// @throws Error (infeasible) if there are more than `most`
[[nodiscard]] std::vector<LayerSet> layer_ideals(const Model& model, bool of_the_dag, std::size_t most);

/// The groups of ranks that a worker can be, less those that differ from another by a symmetry of the cluster.
class RankGroups {
 public:
  explicit RankGroups(const Problem& problem);

  /// Groups among the ranks not used yet, each in the order of replicas.
  [[nodiscard]] std::vector<std::vector<Rank>> among(const std::vector<bool>& used) const;

  /// Ways to give `workers` workers disjoint groups, from above.
  [[nodiscard]] double ways(int workers) const;

 private:
  void find_runs(const Problem& problem);
  void find_twins(const Cluster& cluster);
  void take(std::size_t place, std::vector<Rank>& taken, const std::vector<bool>& used,
            std::vector<std::vector<Rank>>& groups) const;
  [[nodiscard]] bool twin_comes_first(int node, const std::vector<bool>& used) const;

  int most_replicas_;
  std::vector<Rank> order_;              ///< of replicas: by speed, node and rank
  std::vector<std::size_t> next_run_;    ///< by place in order_: where the next run of interchangeable ranks begins
  std::vector<std::vector<Rank>> node_;  ///< its ranks
  std::vector<int> twin_;                ///< of a node: the last equal one before it, or kNone
  std::vector<int> node_of_;             ///< of a rank
};

}  // namespace sluice
