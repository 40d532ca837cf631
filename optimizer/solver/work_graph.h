#pragma once

#include <vector>

#include "core/worker_cost.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// The works that share a cut vector.
[[nodiscard]] std::vector<std::vector<Work>> works_cut_together(Cuts cuts);

/// Layers that must not lie in a later worker than each layer: those that it reads from, ascending; without
/// ideals the one in front of it.
[[nodiscard]] std::vector<std::vector<LayerId>> layers_before(const Model& model, bool ideals);

/// Works that one worker does together.
struct Unit {
  std::vector<LayerWork> works;
};

/// Units and which must not lie in an earlier worker than which. A pipeline is a chain of
/// ideals of this graph (sets of units that hold all predecessors of their units), each
/// worker the difference of two neighbours. That one notion covers
/// joint interval cuts (a chain of layers), independent ones (two chains side by side: ideals are pairs
/// of prefixes), three (three chains), and each of them over the DAG itself in place of the chain.
struct WorkGraph {
  std::vector<Unit> units;                   ///< in a topological order
  std::vector<std::vector<int>> successors;  ///< by unit
};

/// The graph of a search space.
[[nodiscard]] WorkGraph work_graph(const Model& model, const SearchSpace& space);

/// One worker of a solution.
struct Worker {
  std::vector<LayerWork> works;
  std::vector<Rank> ranks;  ///< its replicas
};

/// The stages of workers in pipeline order; Stage::index is the worker's position.
[[nodiscard]] std::vector<Stage> stages_of(const std::vector<Worker>& workers);

}  // namespace sluice
