#include "optimizer/planner/placed_stages.h"

#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "core/index.h"
#include "core/simulator.h"
#include "core/text.h"
#include "core/worker_cost.h"
#include "optimizer/planner/solve.h"
#include "optimizer/schedule/build_plan.h"
#include "optimizer/schedule/interval_stages.h"

namespace sluice {
namespace {

using Bounds = std::vector<int>;  // 0, cuts, number of layers

struct PlacedCuts {
  Bounds forward, backward;
  bool operator==(const PlacedCuts&) const = default;
};

void require_even(const Schedule& schedule, int ranks) {
  if (schedule.placement == Placement::both_ways && ranks % 2 == 1)
    throw infeasible(text("schedule ", schedule.name, " needs an even number of ranks, not ", ranks,
                          ": use one more or less, or 1f1b"));
}

void require_plain(const Problem& problem) {
  const auto refuse = [&](bool asked, const std::string& option) {
    if (asked)
      throw infeasible(
          text("schedule ", problem.pricing.schedule, " cannot be had with ", option, ": leave it out, or use 1f1b"));
  };
  const SearchSpace& space = problem.space;
  refuse(space.most_replicas > 1, "--replicas");
  refuse(space.recompute, "--recompute");
  refuse(space.ideals, "--stages ideals");
  refuse(space.free_backward, "--free-backward");
  refuse(space.exactly, "--exactly");
  refuse(space.cuts == Cuts::three, "--cuts three");
}

Bounds even_bounds(int layers, int positions) {
  Bounds bounds;
  for (std::int64_t k = 0; k <= positions; ++k) bounds.push_back(static_cast<int>(layers * k / positions));
  return bounds;
}

class CutSearch {
 public:
  CutSearch(const Problem& problem, int chunks, Deadline deadline)
      : problem_(problem),
        placement_(schedule_named(problem.pricing.schedule).placement),
        ranks_(static_cast<int>(problem.cluster.ranks.size())),
        positions_(positions_of(placement_, ranks_, chunks)),
        layers_(static_cast<int>(problem.profile.model.layers.size())),
        deadline_(deadline),
        cost_(problem.profile, problem.cluster, problem.pricing) {
    for (int k = 0; k < positions_; ++k) owners_.push_back(owners_at(placement_, k, ranks_));
  }

  std::vector<std::vector<Stage>> run(bool for_the_step) {
    find(Cuts::joint, for_the_step);
    if (problem_.space.cuts == Cuts::independent) find(Cuts::independent, for_the_step);
    std::stable_sort(found_.begin(), found_.end(),
                     [&](const PlacedCuts& a, const PlacedCuts& b) { return price(a) < price(b); });
    std::vector<std::vector<Stage>> candidates;
    for (const PlacedCuts& cuts : found_) candidates.push_back(stages(cuts));
    return candidates;
  }

 private:
  /// Bytes beyond the ranks' memory by the safe count, bottleneck, and how uneven the ranks' compute is.
  using Price = std::tuple<double, double, double>;

  /// From what is known and what dynamic programming makes of such cuts.
  void find(Cuts kind, bool for_the_step) {
    if (found_.empty()) found_.push_back({even_bounds(layers_, positions_), even_bounds(layers_, positions_)});
    found_.push_back(cuts_by_dynamic_programming(kind));
    const bool joint = kind == Cuts::joint;
    const auto by_price = [&](const PlacedCuts& cuts) { return price(cuts); };
    for (std::size_t i = 0, count = found_.size(); i < count; ++i)
      found_.push_back(climb(found_[i], joint, positions_, by_price));
    if (!for_the_step) return;
    const auto by_step = [&](const PlacedCuts& cuts) { return step_s(cuts); };
    const auto fastest = std::min_element(found_.begin(), found_.end(),
                                          [&](const auto& a, const auto& b) { return step_s(a) < step_s(b); });
    found_.push_back(climb(*fastest, joint, 1, by_step));
  }

  /// As if every position had a worker of its own, on the rank that the placement gives it.
  [[nodiscard]] PlacedCuts cuts_by_dynamic_programming(Cuts cuts) const {
    Cluster cluster = problem_.cluster;
    cluster.ranks.clear();
    for (int k = 0; k < positions_; ++k) cluster.ranks.push_back(problem_.cluster.ranks[at(owners_[at(k)].front())]);
    for (RankSpec& rank : cluster.ranks) rank.memory_bytes = kUnlimitedMemory;
    Pricing pricing = problem_.pricing;
    pricing.schedule = "1f1b";
    SearchSpace space;
    space.cuts = cuts;
    const Solution solution = solve({problem_.profile, cluster, pricing, space}, Method::dp, deadline_).solution;
    return {bounds_of(solution.stages, Work::forward), bounds_of(solution.stages, Work::backward)};
  }

  [[nodiscard]] Bounds bounds_of(const std::vector<Stage>& stages, Work work) const {
    if (stages.empty()) return even_bounds(layers_, positions_);
    Bounds ends(at(positions_) + 1, 0);
    for (const Stage& stage : stages)
      if (stage.work == work) ends[at(stage.index) + 1] = stage.layers.back() + 1;
    for (std::size_t k = 1; k < ends.size(); ++k) ends[k] = std::max(ends[k], ends[k - 1]);
    return ends;
  }

  [[nodiscard]] std::vector<Stage> stages(const PlacedCuts& cuts) const {
    std::vector<Stage> stages;
    append_intervals(stages, Work::forward, cuts.forward, owners_);
    append_intervals(stages, Work::backward, cuts.backward, owners_);
    return stages;
  }

  [[nodiscard]] Price price(const PlacedCuts& cuts) const {
    Loads loads = loads_of(cost_, stages(cuts));
    double excess = 0, squares = 0;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      RankLoad& load = loads.ranks[at(rank)];
      const std::int64_t limit = problem_.cluster.ranks[at(rank)].memory_bytes;
      excess += static_cast<double>(std::max<std::int64_t>(0, load.memory_bytes - limit));
      squares += load.compute_s * load.compute_s;
      load.memory_bytes = 0;
    }
    return {excess, bottleneck(problem_.cluster, loads, problem_.pricing).seconds, squares};
  }

  /// Simulated; infinite where a rank's memory is exceeded.
  [[nodiscard]] double step_s(const PlacedCuts& cuts) const {
    const Plan plan = build_plan({problem_.profile, problem_.cluster, problem_.pricing.schedule,
                                  problem_.pricing.microbatches, stages(cuts), problem_.pricing.compute_only,
                                  problem_.pricing.multicast, problem_.pricing.all_reduce});
    const Timeline timeline = simulate(plan);
    for (Rank rank = 0; rank < ranks_; ++rank)
      if (timeline.ranks[at(rank)].peak_memory_bytes > problem_.cluster.ranks[at(rank)].memory_bytes) return kInfinity;
    return static_cast<double>(makespan_ns(timeline)) * 1e-9;
  }

  /// Moves up to `most` neighbouring cuts by one layer, the best of all such moves, again and again.
  template <typename Measure>
  [[nodiscard]] PlacedCuts climb(PlacedCuts cuts, bool joint, int most, const Measure& measure) const {
    for (auto best = measure(cuts); std::chrono::steady_clock::now() < deadline_;) {
      PlacedCuts better = cuts;
      for (PlacedCuts& moved : neighbours(cuts, joint, most))
        if (const auto here = measure(moved); here < best) {
          best = here;
          better = std::move(moved);
        }
      if (better == cuts) break;
      cuts = std::move(better);
    }
    return cuts;
  }

  [[nodiscard]] std::vector<PlacedCuts> neighbours(const PlacedCuts& cuts, bool joint, int most) const {
    std::vector<PlacedCuts> neighbours;
    for (int first = 1; first < positions_; ++first)
      for (int last = first; last < std::min(positions_, first + most); ++last)
        for (const int step : {-1, 1})
          for (const bool forward : {true, false}) {
            if (joint && !forward) continue;
            PlacedCuts moved = cuts;
            if (!move(forward ? moved.forward : moved.backward, first, last, step)) continue;
            if (joint) moved.backward = moved.forward;
            neighbours.push_back(std::move(moved));
          }
    return neighbours;
  }

  [[nodiscard]] static bool move(Bounds& bounds, int first, int last, int step) {
    for (int k = first; k <= last; ++k) bounds[at(k)] += step;
    return bounds[at(first - 1)] <= bounds[at(first)] && bounds[at(last)] <= bounds[at(last + 1)];
  }

  const Problem& problem_;
  const Placement placement_;
  const int ranks_, positions_, layers_;
  const Deadline deadline_;
  const WorkerCost cost_;
  std::vector<std::vector<Rank>> owners_;  // by position
  std::vector<PlacedCuts> found_;
};

}  // namespace

int ranks_of_positions(const Schedule& schedule, int positions, int chunks) {
  const int chunks_a_rank = positions_of(schedule.placement, 1, chunks);
  if (positions % chunks_a_rank != 0)
    throw usage_error(text(positions - 1, " cuts make ", positions, " positions, but schedule ", schedule.name, " has ",
                           chunks_a_rank, " on every rank: give one cut less than a multiple of ", chunks_a_rank));
  require_even(schedule, positions / chunks_a_rank);
  return positions / chunks_a_rank;
}

std::vector<std::vector<Stage>> placed_candidates(const Problem& problem, int chunks, bool for_the_step,
                                                  Deadline deadline) {
  require_plain(problem);
  require_even(schedule_named(problem.pricing.schedule), static_cast<int>(problem.cluster.ranks.size()));
  return CutSearch(problem, chunks, deadline).run(for_the_step);
}

}  // namespace sluice
