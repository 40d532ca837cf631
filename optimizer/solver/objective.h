#pragma once

#include <vector>

#include "core/partition_cost.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// Where a solver stands after some workers: who is next and what is done.
struct Progress {
  Rank next_rank = 0;
  int used = 0;  ///< workers with work so far
  LayerId forward_done = 0;
  LayerId backward_done = 0;
};

/// What solvers minimise over the partitions with a given number of workers that
/// have work: the largest price of a worker. Prices follow from the load of one
/// worker alone, so that a partial solution is worth its largest price so far.
class Objective {
 public:
  Objective(const PartitionCost& cost, int workers) : cost_(&cost), workers_(workers) {}
  virtual ~Objective() = default;

  [[nodiscard]] const PartitionCost& cost() const { return *cost_; }
  [[nodiscard]] int workers() const { return workers_; }
  [[nodiscard]] int layers() const { return cost_->layers(); }
  [[nodiscard]] int ranks() const { return static_cast<int>(cost_->cluster().ranks.size()); }

  /// Infinite if the worker cannot be.
  [[nodiscard]] virtual double price(const ShareLoad& load, Rank rank) const = 0;

  /// No share that contains this load's share costs less.
  [[nodiscard]] virtual double floor(const ShareLoad& load, Rank rank) const = 0;

  /// No solution costs less.
  [[nodiscard]] virtual double lower_bound() const = 0;

  /// Least backward_done with which the remaining workers could stay below
  /// `limit`; layers() + 1 if there is none. A bound: may be too small, never too large.
  [[nodiscard]] virtual LayerId least_backward_done(const Progress& progress, double limit) const = 0;

  /// True only if no completion of `progress` stays below `limit`.
  [[nodiscard]] virtual bool hopeless(const Progress& progress, double limit) const = 0;

 private:
  const PartitionCost* cost_;
  int workers_;
};

/// bottleneck_s: the busiest worker's compute or link [s per micro-batch].
class BottleneckObjective : public Objective {
 public:
  /// @param cuts  that will be solved for. Independent ones meet (L+1)^2 states, for which tables of bounds pay;
  ///   joint ones meet L+1 and do without.
  BottleneckObjective(const PartitionCost& cost, int workers, Cuts cuts = Cuts::independent);

  [[nodiscard]] double price(const ShareLoad& load, Rank rank) const override;
  [[nodiscard]] double floor(const ShareLoad& load, Rank rank) const override;
  [[nodiscard]] double lower_bound() const override;
  [[nodiscard]] LayerId least_backward_done(const Progress& progress, double limit) const override;
  [[nodiscard]] bool hopeless(const Progress& progress, double limit) const override;

 private:
  using Table = std::vector<double>;  ///< by state: [forward_done (L+1) + backward_done]

  void tabulate_bounds();
  [[nodiscard]] bool memory_may_bind() const;
  [[nodiscard]] std::vector<ShareLoad> loads_of_prefixes(int position) const;
  [[nodiscard]] std::vector<ShareLoad> loads_of_suffixes(int position) const;
  [[nodiscard]] double remaining_s(const Progress& progress) const;

  std::vector<std::vector<double>> speed_;  ///< [rank][n]: of the n fastest among ranks [rank, N), summed
  double most_memory_ = 0;                  ///< of a rank [B]
  Table crossing_s_;                        ///< time on one link of all that crosses between prefix and rest
  std::vector<Table> prefix_memory_;        ///< [used]: least bytes of the workers so far
  Table suffix_memory_;                     ///< least bytes of the workers to come
};

/// The fullest worker's memory over its rank's memory: to tell what does not fit.
class MemoryObjective : public Objective {
 public:
  using Objective::Objective;
  [[nodiscard]] double price(const ShareLoad& load, Rank rank) const override;
  [[nodiscard]] double floor(const ShareLoad& load, Rank rank) const override;
  [[nodiscard]] double lower_bound() const override;
  [[nodiscard]] LayerId least_backward_done(const Progress&, double) const override { return 0; }
  [[nodiscard]] bool hopeless(const Progress&, double) const override { return false; }

 private:
  [[nodiscard]] double share_of_rank(std::int64_t bytes, Rank rank) const;
};

}  // namespace sluice
