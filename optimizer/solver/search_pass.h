#pragma once

#include <array>
#include <limits>
#include <map>
#include <vector>

#include "optimizer/solver/rank_classes.h"
#include "optimizer/solver/search.h"
#include "optimizer/solver/worker_walk.h"

namespace sluice {

/// Prices of workers at their best recomputation, each found once: passes ask for the same again.
class RecomputedPrices {
 public:
  explicit RecomputedPrices(const WorkerObjective& objective) : objective_(&objective), tally_(objective.cost()) {}

  struct Price {
    double price = 0;
    double lower_bound = 0;  ///< of the best recomputation, where that was not found for certain
  };
  [[nodiscard]] Price of(const WorkerWalk& walk, int below, int above, const Seat& seat, const RankSpec& rank);

 private:
  const WorkerObjective* objective_;
  WorkerTally tally_;
  std::map<std::array<std::int64_t, 7>, Price> known_;
};

/// What all passes of a search share.
struct SearchSetting {
  const WorkerObjective& objective;
  const SearchSpace& space;
  const SearchScope& scope;
  RankClasses ranks;
  WorkerWalk& walk;
  RecomputedPrices recomputed;
};

/// One run of the dynamic program: is there a pipeline all of whose workers cost less than `limit`?
class SearchPass : private WorkerWalk::Visitor {
 public:
  /// A worker as the pass knows it: what lies between two ideals, and its crew.
  struct Choice {
    int below = 0, above = 0;
    int crew = 0;
  };

  /// @param charged  the number of ranks of all workers that memory is charged for
  SearchPass(SearchSetting& setting, double limit, int charged);

  /// @return the fewest ranks that do; 0: none, or out of time
  [[nodiscard]] int run();
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  /// Pipelines below this were not missed: less than the limit where some recomputation may be better than found.
  [[nodiscard]] double missed_none_below() const { return missed_none_below_; }
  [[nodiscard]] std::vector<Choice> pipeline() const;  ///< from the first worker to the last, if there is one

 private:
  /// The works outside an ideal can be done with `used` ranks.
  struct State {
    int used = 0;        ///< a crew
    int crew = 0;        ///< of the worker just behind the ideal
    int above = kNone;   ///< the ideal behind that worker
    int behind = kNone;  ///< the state there
    int next = kNone;    ///< of the same ideal
  };
  void find_windows(int above);
  bool wants(int ideal, double worker_s) override;
  bool visit(int ideal, const WorkerLoad& load) override;
  bool is_out_of_time() override;
  void use_least(int ideal, const WorkerLoad& load, int behind);
  void use_any(int ideal, const WorkerLoad& load, int behind);
  [[nodiscard]] int least_recomputing(int ideal, const WorkerLoad& load, int used, int most);
  [[nodiscard]] bool affordable(int ideal, const WorkerLoad& load, int crew, int used_behind);
  [[nodiscard]] bool can_finish(int ideal, double left_s, int used) const;
  [[nodiscard]] bool makes_needless(int used, int other) const;
  void reach(int ideal, const State& state);
  [[nodiscard]] int& first_state(int ideal);
  [[nodiscard]] int best_complete() const;

  SearchSetting& setting_;
  double limit_;
  Seat seat_;                         ///< of a worker without itself and those that the search places
  bool least_;                        ///< the least number of ranks says all
  std::vector<int> crews_;            ///< that a worker may have, small ones first
  std::vector<double> capacity_s_;    ///< by crew: as one worker it computes less than that
  std::vector<double> capacities_s_;  ///< by crew: as any number of workers
  int above_ = kNone;                 ///< the ideal whose workers are visited
  double above_s_ = 0;
  std::vector<ComputeWindow> windows_;
  Crossing crossing_;
  int empty_ = kNone;  ///< the empty ideal, once met
  std::vector<State> states_;
  std::vector<int> first_state_;           ///< by ideal
  std::vector<std::vector<int>> by_size_;  ///< ideals reached, by their number of units
  std::vector<int> accepted_;              ///< crews, of the worker under consideration
  double missed_none_below_;
  bool timed_out_ = false;
  int until_look_ = 0;  ///< at the clock
};

}  // namespace sluice
