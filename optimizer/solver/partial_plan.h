#pragma once

#include <vector>

#include "optimizer/solver/problem.h"

namespace sluice {

/// The works that a search space deals one by one: forward and backward, or forward and both kinds of backward.
[[nodiscard]] std::vector<Work> works_of(Cuts cuts);

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

  void open_group(std::vector<Rank> ranks);
  void close_group();  ///< the last one opened
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] const std::vector<bool>& used() const { return used_; }  ///< by rank
  [[nodiscard]] bool can_take(const Group& group, Work work) const;

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

  /// What is certain of the stages so far, traffic and memory included, when the rest is somewhere else.
  /// Compute and memory of a rank never fall as stages are added; where what is left can still come to lie decides
  /// which bytes are certain.
  [[nodiscard]] double finished_bound() const;

 private:
  [[nodiscard]] bool is_closed(const Group& group) const;
  void count(const Stage& stage, int sign);
  [[nodiscard]] std::vector<Stage> with_rest() const;
  void forget_uncertain(Loads& loads) const;

  const Problem* problem_;
  std::vector<Work> works_;
  Cluster extended_;  ///< with one more rank of no limits, for what is left
  std::vector<Group> groups_;
  std::vector<Stage> stages_;
  std::vector<int> owner_;  ///< by stage: index into groups_
  std::vector<bool> used_;
  std::vector<double> busy_s_;  ///< by rank, at speed 1
  double left_s_ = 0;           ///< compute that is not placed, at speed 1
  int layers_left_ = 0;         ///< of all works
};

}  // namespace sluice
