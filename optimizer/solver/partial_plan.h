#pragma once

#include <vector>

#include "core/worker_cost.h"
#include "optimizer/solver/problem.h"

namespace sluice {

/// Stages of the first positions of a pipeline, while enumeration chooses them, and lower
/// bounds of the price of all plans that begin like this.
class PartialPlan {
 public:
  /// A worker. Its ranks have at most one stage of each work.
  struct Group {
    std::vector<Rank> ranks;
    std::vector<Work> works;
  };

  /// Keeps a reference: the problem must outlive it.
  explicit PartialPlan(const Problem& problem);
  PartialPlan(const PartialPlan&) = delete;  // refers to itself

  void open_group(std::vector<Rank> ranks);
  void close_group();  ///< the last one opened
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] const std::vector<bool>& used() const { return used_; }  ///< by rank
  [[nodiscard]] bool can_take(const Group& group, Work work) const;
  [[nodiscard]] bool is_closed(const Group& group) const;  ///< takes no more, once its position is complete

  /// Layers for a group, at a position. A stage of recompute comes after the backward to which it belongs.
  void push(Work work, int position, std::vector<LayerId> layers, int group);
  void pop();
  [[nodiscard]] const std::vector<Stage>& stages() const { return stages_; }
  [[nodiscard]] bool complete() const { return layers_left_ == 0; }

  /// Of a complete plan.
  [[nodiscard]] double price() const;

  /// Compute alone: the busiest rank so far, and what is left spread over all ranks that can
  /// take more. Infinite if there are none.
  [[nodiscard]] double compute_bound() const;

  /// What is certain, traffic and memory included: of the stages so far when the rest is
  /// somewhere else, and of the rest, taken together as one worker on all ranks that are left. Compute and memory of a
  /// rank never fall as stages are added; where what is left can still come to lie decides which bytes are certain.
  [[nodiscard]] double bound() const;

  /// Of one closed group, from its own layers alone: memory and links, quickly.
  [[nodiscard]] double group_bound(int group) const;

  /// False if nothing that the group might recompute can make a plan cheaper: it fits as it is, whatever comes,
  /// and has the forwards of its backwards.
  [[nodiscard]] bool recompute_may_help(int group) const;

 private:
  [[nodiscard]] WorkerTally tally_of(int group) const;
  [[nodiscard]] std::int64_t memory_limit(int group) const;
  void count(const Stage& stage, int sign);
  [[nodiscard]] std::vector<Stage> with_rest() const;
  [[nodiscard]] double rest_bound(const Loads& loads) const;
  void forget_uncertain(Loads& loads) const;
  /// Whoever receives now may recompute in the end: a backward that is left, apart from its forward.
  [[nodiscard]] bool rest_may_recompute() const;

  const Problem* problem_;
  std::vector<Work> works_;
  WorkerCost cost_;
  Cluster extended_;  ///< with one more rank of no limits, for what is left
  WorkerCost extended_cost_;
  std::vector<Group> groups_;
  std::vector<Stage> stages_;
  std::vector<int> owner_;  ///< by stage: index into groups_
  std::vector<bool> used_;
  std::vector<double> busy_s_;  ///< by rank, at speed 1
  double left_s_ = 0;           ///< compute that is not placed, at speed 1
  int layers_left_ = 0;         ///< of all works
};

}  // namespace sluice
