#pragma once

#include <memory>
#include <span>
#include <vector>

#include "optimizer/solver/work_graph.h"
#include "optimizer/solver/worker_objective.h"

namespace sluice {

/// Workers whose compute [s at speed 1] is at least `least_s` and below `limit_s`.
struct ComputeWindow {
  double least_s = 0;
  double limit_s = 0;
};

/// The ideals of a work graph and the workers between them, as a search from the
/// last worker to the first meets them. Ideals have numbers from 0 on.
class WorkerWalk {
 public:
  class Visitor {
   public:
    virtual ~Visitor() = default;
    /// Asked before visit(): whether the worker may be of interest. @param worker_s  its compute at speed 1
    virtual bool wants(int ideal, double worker_s) = 0;
    /// A worker that takes what lies between `ideal` and the one above it.
    /// @return whether workers with all of this load and more are of interest
    virtual bool visit(int ideal, const WorkerLoad& load) = 0;
    /// Once true, nothing more is visited. Asked at every ideal, visited or not.
    virtual bool is_out_of_time() = 0;
  };

  virtual ~WorkerWalk() = default;
  [[nodiscard]] virtual int full() const = 0;
  [[nodiscard]] virtual int count() const = 0;  ///< numbers in use so far
  [[nodiscard]] virtual int units_in(int ideal) const = 0;
  [[nodiscard]] virtual double compute_s(int ideal) const = 0;   ///< of all its works at speed 1
  [[nodiscard]] virtual Crossing crossing(int ideal) const = 0;  ///< of the border behind the ideal
  /// There are more ideals than can be held; some workers were not visited.
  [[nodiscard]] virtual bool is_exhausted() const { return false; }
  /// Visits the workers below `ideal` that lie in one of the windows and are wanted, each once, unless all of another's
  /// load and more is theirs that was of no interest.
  /// @param windows  ascending and apart
  virtual void visit_below(int ideal, std::span<const ComputeWindow> windows, Visitor& visitor) = 0;
  [[nodiscard]] virtual std::vector<LayerWork> works_between(int below, int above) const = 0;
};

/// Keeps references to both. Null if the graph is known to have too many ideals.
[[nodiscard]] std::unique_ptr<WorkerWalk> worker_walk(const WorkGraph& graph, const WorkerObjective& objective);

}  // namespace sluice
