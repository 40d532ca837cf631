#pragma once

#include <cstdint>
#include <vector>

#include "core/stage_pricing.h"

/// What one worker costs, before any plan exists, from its own layers and its place
/// alone: the figures that dynamic programming adds up. Where all ranks
/// are equal and linked by one class of links, the largest price over the
/// workers is bottleneck() of the stages; tests hold the two together.
namespace sluice {

struct LayerWork {
  LayerId layer = 0;
  Work work = Work::forward;
  bool operator==(const LayerWork&) const = default;
};

/// Where a worker stands: a group of `replicas` ranks, replica i running micro-batches m mod replicas = i.
struct Seat {
  int replicas = 1;
  int ranks_from_here = 1;  ///< of this worker and all later ones
  int ranks = 1;            ///< of all workers, or more (memory is then counted safely)
};

/// What a worker does and holds as if it had one replica, whatever its seat.
struct WorkerLoad {
  double compute_s = 0;       ///< per micro-batch at speed 1
  double update_s = 0;        ///< per step at speed 1
  double received_bytes = 0;  ///< per micro-batch
  double sent_bytes = 0;
  double weights_received_bytes = 0;  ///< per step
  double weights_sent_bytes = 0;
  double updated_bytes = 0;  ///< parameters updated here: all-reduced once a step by replicas

  /// Bytes held for as many micro-batches at once as the seat makes of each kind.
  struct Holdings {
    std::int64_t always = 0;   ///< parameters, gradients, momentum, workspace, and tensors held for one micro-batch
    std::int64_t stashed = 0;  ///< from the forward here to the backward here
    std::int64_t stashed_leaving = 0;  ///< likewise, and sent to others meanwhile
    std::int64_t arriving = 0;         ///< from the start of a receive to a use here
    std::int64_t leaving = 0;          ///< from where it is made to the end of its send
    std::int64_t gradients =
        0;  ///< from the start of a gradient's receive to the backward here; per worker that sends one
    bool operator==(const Holdings&) const = default;
  };
  Holdings holdings;
};

/// Prices workers of one profile under one schedule.
class WorkerCost {
 public:
  /// Keeps references: profile and cluster must outlive it. The link that prices traffic is
  /// intra-node if all ranks share a node, inter-node if every rank has its own; otherwise the faster of
  /// the two, so that prices on mixed clusters are lower bounds.
  WorkerCost(const Profile& profile, const Cluster& cluster, const Pricing& pricing);

  [[nodiscard]] const Profile& profile() const;
  [[nodiscard]] const Cluster& cluster() const;
  [[nodiscard]] const Pricing& pricing() const;

  /// Seconds per micro-batch of each replica (of the busiest: it has ceil(M/r) of M micro-batches).
  [[nodiscard]] double compute_s(const WorkerLoad& load, const Seat& seat, double speed) const;
  /// Likewise of its link in the busier direction, weights and all-reduce included; 0 under compute_only.
  [[nodiscard]] double link_s(const WorkerLoad& load, const Seat& seat) const;
  /// Of each replica, never below memory_use() of the plan built.
  [[nodiscard]] std::int64_t memory_bytes(const WorkerLoad& load, const Seat& seat) const;
  /// The larger of compute and link; infinite if the memory of `rank` is exceeded.
  [[nodiscard]] double price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const;
};

/// A worker's layers that come and go one by one, its load kept up to date at the
/// cost of the tensors that a layer touches.
class WorkerTally {
 public:
  explicit WorkerTally(const WorkerCost& cost);

  void add(LayerWork work);  ///< recompute: of a layer, before a backward(-input) here needs what it makes
  void remove(LayerWork work);
  [[nodiscard]] bool empty() const;
  [[nodiscard]] WorkerLoad load() const;
};

}  // namespace sluice
