#include "optimizer/solver/enumeration.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/enumeration_choices.h"
#include "optimizer/solver/partial_plan.h"

namespace sluice {
namespace {

constexpr std::size_t kMostIdeals = 1024;

constexpr int kChoicesPerLookAtTheClock = 64;

/// Chains of `workers` differences from no layers to all, for 1, 2, ... workers.
std::vector<double> count_chains(const std::vector<LayerSet>& ideals, int most_workers) {
  std::vector<double> to(ideals.size(), 0.0), chains;
  to.front() = 1;
  for (int workers = 1; workers <= most_workers; ++workers) {
    std::vector<double> next(ideals.size(), 0.0);
    for (std::size_t i = 0; i < ideals.size(); ++i)
      for (std::size_t j = i; to[i] > 0 && j < ideals.size(); ++j)
        if ((ideals[i] & ~ideals[j]).none()) next[j] += to[i];
    to = std::move(next);
    chains.push_back(to.back());
  }
  return chains;
}

double count_plans(const Problem& problem, const std::vector<LayerSet>& ideals, const RankGroups& groups) {
  const SearchSpace& space = problem.space;
  const int ranks = static_cast<int>(problem.cluster.ranks.size());
  const int cut_vectors = space.cuts == Cuts::joint ? 1 : space.cuts == Cuts::independent ? 2 : 3;
  const int dealt = !space.free_backward ? 0 : space.cuts == Cuts::three ? 2 : 1;
  const std::vector<double> chains = count_chains(ideals, ranks);
  double plans = 0;
  for (int workers = 1; workers <= ranks; ++workers)
    plans += std::pow(chains[at(workers - 1)], cut_vectors) * std::pow(std::tgamma(workers + 1), dealt) *
             groups.ways(workers);
  return space.recompute ? std::ldexp(plans, static_cast<int>(problem.profile.costs.size())) : plans;
}

std::vector<LayerId> members(const LayerSet& set) {
  std::vector<LayerId> layers;
  for (std::size_t layer = set._Find_first(); layer < set.size(); layer = set._Find_next(layer))
    layers.push_back(static_cast<LayerId>(layer));
  return layers;
}

class Enumeration {
 public:
  Enumeration(const Problem& problem, Deadline deadline, const Solution& incumbent)
      : problem_(problem),
        deadline_(deadline),
        works_(works_of(problem.space.cuts)),
        ideals_(layer_ideals(problem.profile.model, problem.space.ideals, kMostIdeals)),
        groups_(problem),
        plan_(problem),
        best_(incumbent) {
    const double plans = count_plans(problem, ideals_, groups_);
    if (plans > kMostPlans)
      throw infeasible(text("exhaustive search would choose from ", plans, " plans, at most ", kMostPlans,
                            " are searched: use --method dp or --method ilp"));
  }

  Solution run() {
    limit_ = plan_.compute_bound();
    double lower_bound = limit_;
    for (double growth = 1.05;; growth *= growth) {
      least_dropped_ = kInfinity;
      extend(0, std::vector<int>(works_.size(), 0));
      if (timed_out_ || best_.price <= least_dropped_) break;
      lower_bound = least_dropped_;
      limit_ = least_dropped_ * growth;
    }
    best_.timed_out = timed_out_;
    best_.lower_bound = timed_out_ ? std::min(best_.price, lower_bound) : best_.price;
    return best_;
  }

 private:
  /// The ideals from which and to which one position takes layers, by work.
  struct Step {
    int position = 0;
    std::vector<int> from, to;
    std::vector<int> group;  ///< the owner, by work
  };

  // Each calls the next for every choice that is not dropped.

  void extend(int position, const std::vector<int>& reached) {
    Step step{position, reached, reached, std::vector<int>(works_.size(), kNone)};
    choose_layers(step, 0);
  }

  void choose_layers(Step& step, std::size_t work) {
    if (work == works_.size()) {
      if (step.to != step.from) deal(step, 0, plan_.groups().size());
      return;
    }
    const bool as_forward = work > 0 && problem_.space.cuts == Cuts::joint;
    const int all = static_cast<int>(ideals_.size()) - 1;
    const bool is_last = step.position + 1 == std::ssize(problem_.cluster.ranks);
    const int least = as_forward ? step.to[0] : is_last ? all : step.from[work];
    for (int to = as_forward ? least : all; to >= least && !timed_out_; --to) {
      if ((ideals_[at(step.from[work])] & ~ideals_[at(to)]).any()) continue;
      step.to[work] = to;
      choose_layers(step, work + 1);
    }
    step.to[work] = step.from[work];
  }

  /// Who does the work. Groups from `first_new` on have been opened at this position.
  void deal(Step& step, std::size_t work, std::size_t first_new) {
    if (work == works_.size()) {
      if (!drop(plan_.compute_bound())) recompute(step);
      return;
    }
    if (step.from[work] == step.to[work]) return deal(step, work + 1, first_new);
    const bool free = problem_.space.free_backward;
    for (std::size_t group = free ? 0 : first_new; group < plan_.groups().size(); ++group)
      if (plan_.can_take(plan_.groups()[group], works_[work])) give(step, work, first_new, static_cast<int>(group));
    if (!free && plan_.groups().size() > first_new) return;
    for (std::vector<Rank>& ranks : groups_.among(plan_.used())) {
      plan_.open_group(std::move(ranks));
      give(step, work, first_new, static_cast<int>(plan_.groups().size()) - 1);
      plan_.close_group();
    }
  }

  void give(Step& step, std::size_t work, std::size_t first_new, int group) {
    const LayerSet layers = ideals_[at(step.to[work])] & ~ideals_[at(step.from[work])];
    step.group[work] = group;
    plan_.push(works_[work], step.position, members(layers), group);
    deal(step, work + 1, first_new);
    plan_.pop();
  }

  /// Which of the layers whose backward is here run forward again.
  void recompute(const Step& step) {
    go_on(step);
    if (!problem_.space.recompute || step.from[1] == step.to[1] || !plan_.recompute_may_help(step.group[1])) return;
    const std::vector<LayerId> layers = members(ideals_[at(step.to[1])] & ~ideals_[at(step.from[1])]);
    for (std::uint64_t chosen = 1; chosen >> layers.size() == 0 && !timed_out_; ++chosen) {
      std::vector<LayerId> again;
      for (std::size_t i = 0; i < layers.size(); ++i)
        if ((chosen >> i & 1) != 0) again.push_back(layers[i]);
      plan_.push(Work::recompute, step.position, std::move(again), step.group[1]);
      if (!drop(plan_.compute_bound())) go_on(step);
      plan_.pop();
    }
  }

  void go_on(const Step& step) {
    const int last_group = static_cast<int>(plan_.groups().size()) - 1;
    if (plan_.is_closed(plan_.groups().back()) && drop(plan_.group_bound(last_group))) return;
    const int positions = step.position + 1;
    if (plan_.complete())
      finish(positions);
    else if (positions < std::ssize(problem_.cluster.ranks) && !drop(plan_.bound()))
      extend(positions, step.to);
  }

  void finish(int positions) {
    const bool all_used = std::all_of(plan_.used().begin(), plan_.used().end(), [](bool used) { return used; });
    if (problem_.space.exactly && !all_used) return;
    if (positions > std::ssize(plan_.groups())) return;
    const double price = plan_.price();
    if (drop(price)) return;
    best_.stages = plan_.stages();
    best_.price = price;
  }

  /// True if plans from this bound on need not be looked at, in this run or at all.
  bool drop(double bound) {
    if (++choices_ % kChoicesPerLookAtTheClock == 0 && std::chrono::steady_clock::now() >= deadline_) timed_out_ = true;
    if (timed_out_ || bound * kRounding >= best_.price) return true;
    if (bound <= limit_) return false;
    least_dropped_ = std::min(least_dropped_, bound);
    return true;
  }

  const Problem& problem_;
  const Deadline deadline_;
  const std::vector<Work> works_;
  const std::vector<LayerSet> ideals_;
  const RankGroups groups_;
  PartialPlan plan_;
  Solution best_;
  double limit_ = 0;          ///< plans up to this price are looked for
  double least_dropped_ = 0;  ///< of the bounds beyond the limit
  int choices_ = 0;
  bool timed_out_ = false;
};

}  // namespace

double count_plans(const Problem& problem) {
  try {
    return count_plans(problem, layer_ideals(problem.profile.model, problem.space.ideals, kMostIdeals),
                       RankGroups(problem));
  } catch (const Error&) {  // more ideals than enumeration takes
    return kInfinity;
  }
}

Solution enumerate(const Problem& problem, Deadline deadline, const Solution& incumbent) {
  return Enumeration(problem, deadline, incumbent).run();
}

}  // namespace sluice
