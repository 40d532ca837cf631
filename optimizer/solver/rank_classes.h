#pragma once

#include <vector>

#include "core/cluster.h"
#include "core/index.h"

namespace sluice {

/// Ranks by equal speed, memory and kind, and how many of each class are used: a crew.
/// Crews are numbered in mixed radix, so that adding crews adds their numbers; with one
/// class a crew is its number of ranks.
class RankClasses {
 public:
  /// @throws Error (infeasible) if there are more than kMostCrews crews
  RankClasses(const Cluster& cluster, const std::vector<Rank>& ranks);

  static constexpr int kMostCrews = 1 << 16;
  [[nodiscard]] static bool can_count(const Cluster& cluster, const std::vector<Rank>& ranks);
  [[nodiscard]] int classes() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] const RankSpec& spec(int of_class) const { return specs_[at(of_class)]; }
  [[nodiscard]] int all() const { return static_cast<int>(total_.size()) - 1; }  ///< the crew of all ranks
  [[nodiscard]] int ranks_in(int crew) const { return total_[at(crew)]; }
  [[nodiscard]] int ranks_in(int crew, int of_class) const { return count_[at(crew * classes() + of_class)]; }
  [[nodiscard]] double speed(int crew) const { return speed_[at(crew)]; }  ///< the sum
  [[nodiscard]] bool is_within(int crew, int other) const;                 ///< in every class no more
  [[nodiscard]] bool is_pure(int crew) const;                              ///< of one class
  [[nodiscard]] RankSpec weakest(int crew) const;                          ///< the least speed and memory in it
  [[nodiscard]] const RankSpec& strongest() const { return strongest_; }   ///< the best of every class

  /// The ranks of crews that follow each other in a pipeline; within a crew the fastest first.
  [[nodiscard]] std::vector<std::vector<Rank>> deal(const std::vector<int>& crews) const;

 private:
  std::vector<std::vector<Rank>> members_;  ///< by class
  std::vector<RankSpec> specs_;             ///< by class, the fastest first
  RankSpec strongest_;
  std::vector<int> count_;     ///< [crew][class]
  std::vector<int> total_;     ///< by crew
  std::vector<double> speed_;  ///< by crew
};

}  // namespace sluice
