#pragma once

#include <optional>
#include <vector>

#include "optimizer/solver/problem.h"
#include "optimizer/solver/work_graph.h"

namespace sluice {

/// Ranks in the order in which a pipeline passes them: the nodes, and the ranks inside each.
using NodeOrder = std::vector<std::vector<Rank>>;

/// Jointly cut pipelines over the nodes of a cluster, whose ranks share their node's NIC: dynamic
/// programming from the last layer to the first. Workers take the ranks of a node order one after the other
/// - inside a node;
/// - inside each of R equal nodes in lockstep: node k of them runs micro-batches m with m mod R = k, so
///   that only the borders of the R nodes' layers and the all-reduces use NICs;
/// - or across nodes, replicas on both sides of a node's border.
/// What happens inside a node is priced by WorkerCost on the faster link, a NIC by the sum over its node's
/// workers; the least NIC load stands for a state, and a worker across nodes counts as meeting its neighbours'
/// replicas at random. So the plans are good, not proven best: they are to be priced by loads_of().
class NodePipelines {
 public:
  /// Keeps a reference to `cost`, which holds profile and cluster.
  /// @param layers  all of them in a topological order; pipelines are cut between its positions
  NodePipelines(const WorkerCost& cost, const SearchSpace& space, std::vector<LayerId> layers);

  /// Workers in pipeline order none of whose ranks and NICs is counted busy for `limit` seconds per micro-batch
  /// or more; nothing if there are none of this order, or if the deadline passes.
  [[nodiscard]] std::optional<std::vector<Worker>> below(double limit, const NodeOrder& order, Deadline deadline) const;

  /// What the layers at positions [begin, end) are and cost as one worker.
  [[nodiscard]] const WorkerLoad& load(int begin, int end) const { return loads_[at(end)][at(end - begin)]; }
  /// Of such a worker: WorkerCost::price, or where it does not fit and the space lets it recompute, about
  /// the price with the least recomputation that makes it fit: what is saved taken as proportional to the time spent.
  [[nodiscard]] double price(int begin, int end, const Seat& seat, const RankSpec& rank) const;
  /// The longest prefix of the layers whose compute takes no longer at speed 1.
  [[nodiscard]] int last_prefix_within(double seconds) const;

  [[nodiscard]] const WorkerCost& cost() const { return *cost_; }
  [[nodiscard]] const SearchSpace& space() const { return space_; }
  [[nodiscard]] const std::vector<LayerId>& layers() const { return layers_; }

 private:
  [[nodiscard]] std::vector<std::vector<WorkerLoad>> tabulate(bool recompute) const;

  const WorkerCost* cost_;
  SearchSpace space_;
  std::vector<LayerId> layers_;
  std::vector<std::vector<WorkerLoad>> loads_;        ///< by the layer after the last, then by number of layers
  std::vector<std::vector<WorkerLoad>> recomputing_;  ///< likewise, all of the layers again; none if the space bars it
};

/// Gives workers that do not fit the recomputation that makes them fit at the least price; those that none makes fit
/// stay as they are. The workers recompute nothing yet.
[[nodiscard]] std::vector<Worker> with_recomputation(std::vector<Worker> workers, const WorkerCost& cost);

/// Seconds per micro-batch that these bytes keep a NIC busy, given the share of the micro-batches that
/// passes it, and bytes once a step.
[[nodiscard]] double nic_s(const WorkerCost& cost, const WorkerLoad& border, double share, double step_bytes = 0);

/// Bytes that a ring over `replicas` sends and receives at each member, once a step (Patarasuk, Yuan 2009).
[[nodiscard]] double all_reduce_bytes(const WorkerLoad& load, int replicas);

/// The largest share of the micro-batches that `members` of `replicas` run.
[[nodiscard]] double share_of(const Pricing& pricing, int members, int replicas);

/// True if both nodes' ranks have equal speeds and memories, one by one.
[[nodiscard]] bool nodes_are_equal(const Cluster& cluster, const std::vector<Rank>& a, const std::vector<Rank>& b);

}  // namespace sluice
