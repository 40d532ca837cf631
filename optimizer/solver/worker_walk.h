#pragma once

#include <memory>
#include <vector>

#include "optimizer/solver/work_graph.h"

namespace sluice {

/// The ideals of a work graph and the workers between them, as a search from the
/// last worker to the first meets them. Ideals have numbers from 0 on.
class WorkerWalk {
 public:
  class Visitor {
   public:
    virtual ~Visitor() = default;
    /// A worker that takes what lies between `ideal` and the one above it.
    /// @return whether workers with all of this load and more are of interest
    virtual bool visit(int ideal, const WorkerLoad& load) = 0;
  };

  virtual ~WorkerWalk() = default;
  [[nodiscard]] virtual int full() const = 0;
  [[nodiscard]] virtual int count() const = 0;  ///< of the ideals met so far
  [[nodiscard]] virtual int units_in(int ideal) const = 0;
  [[nodiscard]] virtual double compute_s(int ideal) const = 0;  ///< of all its works at speed 1
  /// Visits every worker below `ideal`, smaller ones before those that include them.
  virtual void visit_below(int ideal, Visitor& visitor) = 0;
  [[nodiscard]] virtual std::vector<LayerWork> works_between(int below, int above) const = 0;
};

/// Keeps references to both.
/// @throws Error (infeasible), also later on, if the graph has more than `most_ideals` ideals
[[nodiscard]] std::unique_ptr<WorkerWalk> worker_walk(const WorkGraph& graph, const WorkerCost& cost,
                                                      std::int64_t most_ideals);

}  // namespace sluice
