#include "optimizer/planner/cooperative_cuts.h"

#include <algorithm>
#include <map>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"

namespace sluice {
namespace {

/// Cuts for the first K ranks of a cluster.
class CooperativeCuts {
 public:
  CooperativeCuts(const Problem& problem, int ranks) : problem_(problem), ranks_(ranks) {
    for (const LayerCost& cost : problem.profile.costs) {
      forward_s_.push_back(forward_s_.back() + cost.forward_s);
      backward_s_.push_back(backward_s_.back() + work_time(cost, Work::backward));
      update_s_.push_back(update_s_.back() + cost.update_s);
    }
    for (Rank rank = 0; rank < ranks; ++rank) slowest_ = std::min(slowest_, problem.cluster.ranks[at(rank)].speed);
    fill();
  }

  [[nodiscard]] std::vector<int> least_bottleneck() const {
    return with_least([&](int last) { return forward_s_[at(last)] / ranks_ / slowest_ + busiest(last); });
  }

  [[nodiscard]] std::vector<int> least_step() const {
    const int turns = microbatches_of(0, ranks_, microbatches());
    return with_least([&](int last) {
      return turns * forward_s_[at(last)] / slowest_ + microbatches() * busiest(last) +
             backward_s_[at(last)] / slowest_;
    });
  }

 private:
  [[nodiscard]] int layers() const { return static_cast<int>(problem_.profile.costs.size()); }
  [[nodiscard]] int microbatches() const { return problem_.pricing.microbatches; }

  /// What rank k does for each micro-batch as the owner of [begin, end).
  [[nodiscard]] double owner_s(int k, int begin, int end) const {
    const auto sum = [&](const std::vector<double>& until) { return until[at(end)] - until[at(begin)]; };
    return (sum(forward_s_) + sum(backward_s_) + sum(update_s_) / microbatches()) / problem_.cluster.ranks[at(k)].speed;
  }

  /// slowest_owner_[k][end]: of the first k ranks, if they own the layers before `end`.
  void fill() {
    slowest_owner_.assign(at(ranks_) + 1, std::vector<double>(at(layers()) + 1, kInfinity));
    begin_.assign(at(ranks_) + 1, std::vector<int>(at(layers()) + 1, 0));
    slowest_owner_[0][0] = 0;
    for (int k = 1; k < ranks_; ++k)
      for (int end = k; end <= layers(); ++end)
        for (int begin = k - 1; begin < end; ++begin) {
          const double slowest = std::max(slowest_owner_[at(k - 1)][at(begin)], owner_s(k - 1, begin, end));
          if (slowest >= slowest_owner_[at(k)][at(end)]) continue;
          slowest_owner_[at(k)][at(end)] = slowest;
          begin_[at(k)][at(end)] = begin;
        }
  }

  /// The slowest of all owners if the last rank's layers begin at `last`.
  [[nodiscard]] double busiest(int last) const {
    return std::max(slowest_owner_[at(ranks_ - 1)][at(last)], owner_s(ranks_ - 1, last, layers()));
  }

  template <typename Time>
  [[nodiscard]] std::vector<int> with_least(const Time& time) const {
    int best = ranks_ - 1;
    for (int last = ranks_ - 1; last < layers(); ++last)
      if (time(last) < time(best)) best = last;
    std::vector<int> bounds(at(ranks_) + 1, layers());
    for (int k = ranks_ - 1, bound = best; k >= 0; bound = begin_[at(k)][at(bound)], --k) bounds[at(k)] = bound;
    return bounds;
  }

  const Problem& problem_;
  const int ranks_;
  double slowest_ = kInfinity;                                      // speed
  std::vector<double> forward_s_{0}, backward_s_{0}, update_s_{0};  // of the layers before
  std::vector<std::vector<double>> slowest_owner_;
  std::vector<std::vector<int>> begin_;  // of the last of the k ranks' layers
};

}  // namespace

std::vector<std::vector<int>> cooperative_cuts(const Problem& problem) {
  const auto most = std::min(problem.cluster.ranks.size(), problem.profile.costs.size());
  std::vector<std::vector<int>> found;
  for (int ranks = static_cast<int>(most); ranks >= 1; ranks /= 2) {
    const CooperativeCuts cuts(problem, ranks);
    found.push_back(cuts.least_step());
    found.push_back(cuts.least_bottleneck());
    if (problem.space.exactly) break;
  }
  return found;
}

std::vector<std::vector<int>> neighbours(const std::vector<int>& bounds) {
  std::vector<std::vector<int>> all;
  for (std::size_t k = 1; k + 1 < bounds.size(); ++k)
    for (const int moved : {bounds[k] - 1, bounds[k] + 1})
      if (bounds[k - 1] < moved && moved < bounds[k + 1]) {
        all.push_back(bounds);
        all.back()[k] = moved;
      }
  return all;
}

std::vector<int> cooperative_bounds(const std::vector<Stage>& stages) {
  std::vector<int> bounds{0};
  for (const Stage& stage : stages)  // in the pipeline's order
    if (stage.work == Work::backward) bounds.push_back(stage.layers.back() + 1);
  return bounds;
}

std::vector<int> joint_bounds(const std::vector<Stage>& stages) {
  std::map<int, std::vector<LayerId>> forward, backward;
  for (const Stage& stage : stages) {
    if (stage.owners.size() > 1) throw infeasible("schedule cooperative has no replicas: leave --worker-replicas out");
    (stage.work == Work::forward ? forward : backward)[stage.index] = stage.layers;
    if (stage.work != Work::forward && stage.work != Work::backward)
      throw infeasible("schedule cooperative runs whole backwards: leave --weight-cuts out");
  }
  if (forward != backward)
    throw infeasible(
        "under schedule cooperative every rank runs forward of all layers, so that forward cuts apart mean nothing: "
        "give "
        "one of --forward-cuts and --backward-cuts");
  std::vector<int> bounds{0};
  for (const auto& [index, layers] : backward) bounds.push_back(layers.back() + 1);
  return bounds;
}

}  // namespace sluice
