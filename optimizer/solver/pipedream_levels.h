#pragma once

#include <limits>
#include <vector>

#include "core/cluster.h"
#include "core/plan.h"
#include "optimizer/solver/pipedream_states.h"

/// PipeDream's own planning problem (Narayanan et al. 2019, section 3.1), for comparison with ours:
/// machines in levels, the time of a level's best pipeline being the time that the next
/// level divides among its machines. The objective is the largest stage.
namespace sluice {

struct PipedreamLevel {
  int machines = 1;  ///< in one machine of the next level
  double bandwidth_bytes_per_s = std::numeric_limits<double>::infinity();
  bool operator==(const PipedreamLevel&) const = default;
};

/// The cluster as PipeDream sees it, innermost level first: the ranks of a node, then the nodes; a
/// single level where there is one node, or one rank on each.
/// @throws Error (infeasible) for nodes of different sizes, and for ranks that do not stand block-wise
[[nodiscard]] std::vector<PipedreamLevel> pipedream_levels(const Cluster& cluster);
[[nodiscard]] bool are_pipedream_levels(const Cluster& cluster);  ///< false: it throws

/// A stage on r machines of a level [s per minibatch]: (time + 4 (r-1) W / (B r)) / r. W are its
/// parameter bytes, all-reduced after every minibatch, B the level's bandwidth; its time is that of the
/// level inside, innermost the sum of forward and backward.
[[nodiscard]] double pipedream_stage_s(double time_s, double parameter_bytes, int replicas,
                                       double bandwidth_bytes_per_s);

struct PipedreamRules {
  bool replicas = true;
  bool activations = false;  ///< a stage takes at least 2 a / (B r), a being the bytes that enter or leave its layers
  /// Of a machine, which holds (1 + ceil(later machines / r)) times its layers' outputs and parameters.
  std::int64_t memory_bytes = kUnlimitedMemory;
  /// Errs as the published code does: exactly the given machines are used; a level's first stage pays no
  /// activations and divides its weights' traffic by the machines inside; the micro-batch in work
  /// is not held, so that memory never limits the last stage.
  bool as_published = false;
};

/// The layers by which state `last` exceeds state `first`, on machines of one level.
struct PipedreamStage {
  int first = 0;
  int last = 0;
  int replicas = 1;
  bool operator==(const PipedreamStage&) const = default;
};

struct PipedreamPlan {
  double time_s = std::numeric_limits<double>::infinity();  ///< per minibatch; infinite: there is no plan
  std::vector<std::vector<PipedreamStage>> levels;  ///< innermost first; an inner level's stages lie in the outer's
};

/// The optimum. States squared times machines of memory, states cubed of time, once there are two levels.
/// @param levels  innermost first, at least one
[[nodiscard]] PipedreamPlan solve_pipedream_levels(const std::vector<PipedreamState>& states,
                                                   const std::vector<PipedreamLevel>& levels,
                                                   const PipedreamRules& rules);

/// Forward and backward stages on ranks numbered block-wise, as in uniform_cluster(). Of a
/// stage on several outer machines each runs every so-many-th micro-batch from end to end.
[[nodiscard]] std::vector<Stage> stages_from_pipedream(const std::vector<PipedreamState>& states,
                                                       const PipedreamPlan& plan,
                                                       const std::vector<PipedreamLevel>& levels);

}  // namespace sluice
