#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"

/// What given stages cost, by definition: the truth that solvers are measured by.
/// WorkerCost prices one worker at a time, fast, for searches; the simulator prices
/// the finished plan's instructions.
///
/// Everything is the mean over the M micro-batches of a step; what happens once a
/// step counts 1/M (under pipedream, which updates after each micro-batch, 1). Replica i of r runs the micro-batches m
/// with m mod r = i.
///
/// Compute of a rank: forward, backward and recompute of its stages' layers for its
/// micro-batches, and the update of the layers whose backward(-weight) it owns,
/// over its speed. Every replica updates its own copy.
///
/// Traffic is counted at borders, as unions over tensors: for one micro-batch, a
/// tensor that is made outside a border and needed inside enters once, one
/// made inside and needed outside leaves once, however many stages or
/// ranks need it. The same for the gradient of a tensor: the partial sums made
/// on the one side and wanted on the other are counted as one.
/// - A tensor (output or auxiliary) is made by the owner of its
///   producer's forward, and needed by the owners of forwards that read it, and of backwards and
///   recomputes that read it unless a recompute stage of the same rank makes it again.
/// - The dataset's tensors likewise where one rank reads for all: made by it, needed by all who read them.
/// - The gradient of a tensor is made by the owners of the backward(-input) of layers whose forward reads it
///   and wanted by the owners of its producer's backward, or backward-input and backward-weight.
/// - The updated weights of a layer, once a step: made by the owners of its backward(-weight),
///   needed by the owners of its other works. Each is served by an owner on its own
///   node if there is one, else by the first owner. Weights that are fetched (Stage::fetches_weights)
///   the same, by those owners of the forward that have micro-batches.
/// - All-reduce of r replicas' weight gradients, once a step: a ring over the owners in order of (node, rank);
///   each sends and receives 2 (r-1)/r of the bytes (Patarasuk, Yuan 2009). By nodes (hierarchical), p of them, a NIC
///   carries 2 (p-1)/p, at least half of that, and the links inside up to the whole bytes each way.
/// What enters a node does so once by every algorithm that is aware of nodes. What leaves its maker's node for p others
/// leaves it once if they are a chain or take part in an allgather, up to log2(p + 1) times by a binomial tree, up to
/// twice by a binary one, and p times by `hierarchical`: there a NIC may carry up to p times the priced bytes out.
/// Borders: that of a node is its NIC. Inside a node a rank's own link carries what it
/// exchanges with ranks of the same node; what comes from another node reaches the lowest rank of
/// the node that needs it by the NIC alone and is passed on from there.
///
/// Memory of a rank: an upper bound of memory_use() of the plan built from the stages,
/// the same that WorkerCost charges (docs/planner.md has the table). A rank that owns several stages of one work is
/// charged for each of its positions as for a rank of its own; there the bound holds for chains of layers, and for
/// recompute stages within their own backward.
namespace sluice {

/// The price of what cannot be, as where memory is exceeded.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a step looks like, besides its stages.
struct Pricing {
  std::string schedule = "1f1b";
  int microbatches = 1;                      ///< M
  bool compute_only = false;                 ///< links are free
  std::optional<Algorithm> multicast = {};   ///< as in Plan
  std::optional<Algorithm> all_reduce = {};  ///< as in Plan
  Rank data_reader = kNone;                  ///< as in Plan; searches leave it out, and so do the counts of memory
};

/// Mean per micro-batch.
struct RankLoad {
  double compute_s = 0;       ///< at the rank's speed
  double received_bytes = 0;  ///< over its link inside the node
  double sent_bytes = 0;
  std::int64_t memory_bytes = 0;
};
struct NodeLoad {
  double received_bytes = 0;  ///< through its NIC
  double sent_bytes = 0;
};
struct Loads {
  std::vector<RankLoad> ranks;
  std::vector<NodeLoad> nodes;
};

/// @param stages  every (layer, work) once; owners within the cluster
[[nodiscard]] Loads loads_of(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages,
                             const Pricing& pricing);

enum class Resource : std::uint8_t { compute, rank_link, nic, memory };

/// The busiest resource of all.
struct Bottleneck {
  double seconds = 0;  ///< per micro-batch; infinite where memory is exceeded
  Resource resource = Resource::compute;
  int where = 0;  ///< rank; nic: node
};
[[nodiscard]] Bottleneck bottleneck(const Cluster& cluster, const Loads& loads, const Pricing& pricing);

/// Replicas of the worker at each position that has stages, by Stage::index: the most owners of its stages.
[[nodiscard]] std::map<int, int> replicas_by_position(const std::vector<Stage>& stages);

/// Micro-batches between a forward and the backward at the same position, that one included, over all its
/// replicas. 1f1b: min(M, the ranks from this position to the last, as if each later
/// replica has one in work); asynchronous: likewise whatever M is; gpipe, cooperative: M; sequential: 1.
[[nodiscard]] int microbatches_in_flight(const Pricing& pricing, int ranks_from_here);

/// How many of a step's micro-batches an update takes: M, under pipedream 1. What happens once an update, its weights'
/// traffic included, counts one over this.
[[nodiscard]] int microbatches_per_update(const Pricing& pricing);

/// Versions of its weights that a worker keeps: 1, under pipedream-2bw 2, under pipedream as many as it has
/// micro-batches in flight.
[[nodiscard]] int versions_of_weights(const Pricing& pricing, int ranks_from_here);

}  // namespace sluice
