#pragma once

#include <vector>

#include "core/index.h"
#include "optimizer/solver/ilp/mip.h"
#include "optimizer/solver/ilp/seatings.h"

namespace sluice {

/// By rank: the column that is 1 at the one rank that has some work.
using Place = std::vector<int>;

/// The columns that say who does what, for workers of one rank each, and the rows that make it a plan of the
/// search space: a worker's layers are an interval or a difference of ideals, and its works stand at
/// the same position of the pipeline.
///
/// Positions are counted from the end: position k of N has at most N - k ranks from there on. Whoever
/// uses fewer than N leaves the first positions empty.
class WorkColumns {
 public:
  /// @param seating  null: any; the program chooses
  WorkColumns(Mip& mip, const Problem& problem, const Seating* seating);

  [[nodiscard]] int layers() const { return static_cast<int>(problem_.profile.model.layers.size()); }
  [[nodiscard]] int ranks() const { return static_cast<int>(problem_.cluster.ranks.size()); }

  /// Of forward, backward-input (all of backward if it is one work) and backward-weight.
  [[nodiscard]] const Place& place(Work work, LayerId layer) const;
  /// Whether backward-weight has a place of its own.
  [[nodiscard]] bool three() const { return problem_.space.cuts == Cuts::three; }
  /// The rank that recomputes the layer, if one does; empty if none may.
  [[nodiscard]] const Place& recompute(LayerId layer) const { return again_[at(layer)]; }

  /// One sum for each work that has seats of its own: 1 where the rank stands at a position <= k.
  [[nodiscard]] std::vector<Terms> stands_by(Rank rank, int k) const;
  /// 1 where some layer stands at a position <= k.
  [[nodiscard]] Terms used_by(int k) const { return {{used_[at(k)]}}; }

  [[nodiscard]] std::vector<Stage> stages(const std::vector<double>& values) const;
  /// Forbids intervals of layers whose compute alone takes longer than this [s per micro-batch]. Other rows say so too,
  /// but not while columns are fractions.
  void forbid_long_intervals(double longest_s);

  /// Forbids the plan that has these values.
  void exclude(const std::vector<double>& values);

 private:
  /// Works whose layers are dealt to the ranks in one way.
  struct Deal {
    std::vector<Place> places;  ///< by layer
    std::size_t cut = 0;        ///< index into before_
    std::size_t seating = 0;    ///< index into seats_
  };
  using ByLayer = std::vector<std::vector<int>>;

  [[nodiscard]] std::size_t deal_of(Work work) const;
  void add_deals();
  void add_deal(std::size_t cut, std::size_t seating);
  [[nodiscard]] std::vector<std::pair<LayerId, LayerId>> order() const;
  void cut_layers();
  void take_seats(const Seating& seating);
  void stand(const Deal& deal, const std::vector<int>& positions);
  void choose_seats();
  void follow_seats(const Deal& deal);
  void order_equal_nodes();
  void order_equal_ranks();
  [[nodiscard]] Terms seated(std::size_t seating, Rank rank, int first, int last) const;
  void give_all_work();
  void choose_recompute();
  void mark_used();
  [[nodiscard]] double least_compute_s(std::size_t cut, LayerId layer) const;
  [[nodiscard]] int position(std::size_t cut, LayerId layer, const std::vector<double>& values) const;

  Mip& mip_;
  const Problem& problem_;
  std::vector<Deal> deals_;
  std::vector<ByLayer> before_;  ///< [cut][layer][k]: the layer stands at a position <= k
  std::vector<ByLayer> seats_;   ///< [seating][rank][k]: the rank has a work at position k
  std::vector<Place> again_;     ///< by layer
  std::vector<int> used_;        ///< [k]
};

}  // namespace sluice
