#include "optimizer/solver/search.h"

#include <algorithm>
#include <numeric>

#include "core/index.h"
#include "optimizer/solver/search_pass.h"

namespace sluice {
namespace {

class Search {
 public:
  Search(const WorkGraph& graph, const WorkerObjective& objective, const SearchSpace& space, const SearchScope& scope,
         WorkerWalk& walk)
      : graph_(&graph), walk_(&walk), setting_{objective, space,
                                               scope,     RankClasses(objective.cost().cluster(), scope.ranks),
                                               *walk_,    RecomputedPrices(objective)} {}

  Pipeline run();

 private:
  [[nodiscard]] double simple_bound() const;
  bool rise(double least);
  void narrow(bool found);
  bool attempt(double limit);
  void keep(const std::vector<SearchPass::Choice>& choices);
  void recompute(const std::vector<int>& crews);
  [[nodiscard]] double allowance() const;

  const WorkGraph* graph_;
  WorkerWalk* walk_;
  SearchSetting setting_;
  Pipeline best_;
  int used_ = 1;       ///< ranks of the best pipeline
  double failed_ = 0;  ///< the highest limit below which no pipeline was found
};

/// The limit rises from a bound in growing steps, because passes with low limits are fast, until a pipeline is
/// found; then it halves what is open between bound and price.
Pipeline Search::run() {
  const double least = simple_bound();
  best_.lower_bound = failed_ = least;
  narrow(rise(least));
  best_.lower_bound = std::max(least, best_.lower_bound * allowance());
  return best_;
}

bool Search::rise(double least) {
  const double most = setting_.scope.below;
  for (double slack = 1e-3; least > 0 && least * (1 + slack) < most && slack < 1e3 && !best_.timed_out; slack *= 4)
    if (attempt(least * (1 + slack))) return true;
  return least < most && attempt(most);
}

void Search::narrow(bool found) {
  constexpr double kNear = 1 + 1e-2;
  bool halves = false;
  while (found && !best_.timed_out && best_.price > failed_ * kRounding) {
    // Near the end the price found may well be the least. If it is not, others may follow close by.
    halves = !halves || best_.price > failed_ * kNear;
    attempt(halves ? std::midpoint(failed_, best_.price) : best_.price);
  }
}

/// Works through which any pipeline has to go: the dearest unit, and all of the compute.
double Search::simple_bound() const {
  const SearchSetting& s = setting_;
  if (s.scope.ranks.empty()) return kInfinity;
  double bound = walk_->compute_s(walk_->full()) / (s.objective.capacity_s(1, 1) * s.ranks.speed(s.ranks.all()));
  for (const Unit& unit : graph_->units) {
    WorkerTally tally(s.objective.cost());
    for (const LayerWork& work : unit.works) tally.add(work);
    bound = std::max(bound, s.objective.floor(tally.load(), s.space.most_replicas, s.ranks.strongest()));
  }
  return bound * kSafely;
}

/// Looks for a pipeline cheaper than `limit`. The more ranks memory is charged for, the more
/// are needed, so the least charge that holds is met by rising: from what the last pipeline needed, since a lower
/// limit needs no less.
bool Search::attempt(double limit) {
  int charged = setting_.space.exactly ? static_cast<int>(setting_.scope.ranks.size()) : used_;
  double missed_none_below = limit;
  while (!best_.timed_out) {
    SearchPass pass(setting_, limit, charged);
    const int needed = pass.run();
    best_.timed_out = pass.timed_out();
    if (needed > 0 && needed <= charged) {
      keep(pass.pipeline());
      used_ = needed;
      return true;
    }
    missed_none_below = std::min(missed_none_below, pass.missed_none_below());
    if (needed == 0) break;
    charged = needed;
  }
  if (best_.timed_out) return false;
  failed_ = limit;
  best_.lower_bound = std::max(best_.lower_bound, missed_none_below);
  return false;
}

void Search::keep(const std::vector<SearchPass::Choice>& choices) {
  std::vector<int> crews;
  for (const SearchPass::Choice& choice : choices) crews.push_back(choice.crew);
  std::vector<std::vector<Rank>> ranks = setting_.ranks.deal(crews);
  best_.workers.clear();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    sort_replicas(ranks[i], setting_.objective.cost().cluster());
    best_.workers.push_back({walk_->works_between(choices[i].below, choices[i].above), std::move(ranks[i])});
  }
  if (setting_.space.recompute) recompute(crews);
  best_.price = price_of(best_.workers, setting_.objective, setting_.scope);
}

void Search::recompute(const std::vector<int>& crews) {
  int all = setting_.scope.ranks_behind;
  for (const Worker& worker : best_.workers) all += static_cast<int>(worker.ranks.size());
  int from_here = all;
  for (std::size_t i = 0; i < crews.size(); ++i) {
    Worker& worker = best_.workers[i];
    WorkerTally tally(setting_.objective.cost());
    for (const LayerWork& work : worker.works) tally.add(work);
    const Seat seat{static_cast<int>(worker.ranks.size()), from_here, setting_.scope.ranks_before + all};
    for (const LayerId layer : setting_.objective.recomputed(tally, seat, setting_.ranks.weakest(crews[i])).layers)
      worker.works.push_back({layer, Work::recompute});
    from_here -= seat.replicas;
  }
}

/// By how much a worker of ranks of several classes may cost less than the price of its busiest replica: its slow
/// ranks might have the fewer micro-batches.
double Search::allowance() const {
  if (setting_.ranks.classes() == 1) return 1;
  const int microbatches = setting_.objective.cost().pricing().microbatches;
  double least = 1;
  for (int r = 2; r <= std::min<int>(setting_.space.most_replicas, static_cast<int>(setting_.scope.ranks.size())); ++r)
    least = std::min(least, static_cast<double>(microbatches / r) / microbatches_of(0, r, microbatches));
  return least;
}

}  // namespace

double price_of(const std::vector<Worker>& workers, const WorkerObjective& objective, const SearchScope& scope) {
  const std::vector<RankSpec>& specs = objective.cost().cluster().ranks;
  int from_here = scope.ranks_behind;
  for (const Worker& worker : workers) from_here += static_cast<int>(worker.ranks.size());
  const int all = scope.ranks_before + from_here;
  double price = 0;
  for (const Worker& worker : workers) {
    WorkerTally tally(objective.cost());
    for (const LayerWork& work : worker.works) tally.add(work);
    const Seat seat{static_cast<int>(worker.ranks.size()), from_here, all};
    for (const Rank rank : worker.ranks) price = std::max(price, objective.price(tally.load(), seat, specs[at(rank)]));
    from_here -= seat.replicas;
  }
  return price;
}

Pipeline search(const WorkGraph& graph, const WorkerObjective& objective, const SearchSpace& space,
                const SearchScope& scope) {
  Pipeline cut_short;
  cut_short.timed_out = true;
  if (!RankClasses::can_count(objective.cost().cluster(), scope.ranks)) return cut_short;
  const std::unique_ptr<WorkerWalk> walk = worker_walk(graph, objective);
  return walk ? Search(graph, objective, space, scope, *walk).run() : cut_short;
}

SearchScope whole_cluster(const Cluster& cluster) {
  SearchScope scope;
  scope.ranks.resize(cluster.ranks.size());
  std::iota(scope.ranks.begin(), scope.ranks.end(), 0);
  return scope;
}

namespace {

/// Spaces that lie in the problem's, small ones first: what they find limits the search of the larger ones.
std::vector<SearchSpace> nested_spaces(const SearchSpace& space) {
  std::vector<SearchSpace> nested;
  for (const Cuts cuts : {Cuts::joint, Cuts::independent, Cuts::three})
    for (const bool ideals : {false, true})
      if (cuts <= space.cuts && ideals <= space.ideals) {
        nested.push_back(space);
        nested.back().cuts = cuts;
        nested.back().ideals = ideals;
      }
  return nested;
}

/// The same workers, their backwards done in two works as plans with three cuts do them.
void split_backwards(std::vector<Worker>& workers) {
  for (Worker& worker : workers)
    for (std::size_t i = 0, works = worker.works.size(); i < works; ++i)
      if (worker.works[i].work == Work::backward) {
        worker.works[i].work = Work::backward_input;
        worker.works.push_back({worker.works[i].layer, Work::backward_weight});
      }
}

/// The search of one space after the other, the best so far being the next one's limit.
class NestedSearch {
 public:
  NestedSearch(const Problem& problem, const WorkerObjective& objective, Deadline deadline)
      : problem_(problem), objective_(objective), scope_(whole_cluster(problem.cluster)) {
    scope_.deadline = deadline;
  }

  Solution run() {
    for (const SearchSpace& space : nested_spaces(problem_.space)) {
      Pipeline found = search(work_graph(problem_.profile.model, space), objective_, space, scope_);
      best_.timed_out = found.timed_out;
      best_.lower_bound = std::max(std::min(found.lower_bound, scope_.below), compute_bound(problem_));
      if (!found.workers.empty()) keep(found.workers);
    }
    return best_;
  }

 private:
  void keep(std::vector<Worker>& workers) {
    if (problem_.space.cuts == Cuts::three) split_backwards(workers);
    const double known = price_of(workers, objective_, {});
    if (known == kInfinity) return;  // two works apart may hold more than one
    scope_.below = std::min(scope_.below, known);
    std::vector<Stage> stages = stages_of(workers);
    const double price = price_of(problem_, stages);
    if (!best_.found() || price < best_.price) {
      best_.price = price;
      best_.stages = std::move(stages);
    }
  }

  const Problem& problem_;
  const WorkerObjective& objective_;
  SearchScope scope_;
  Solution best_;
};

/// Whether workers may recompute what others have to send: a worker's price is then not its own business alone.
bool recomputation_is_mutual(const SearchSpace& space) { return space.recompute && space.cuts != Cuts::joint; }

/// From below, with all that recomputation could ever save.
double recomputed_bound(Problem problem, const WorkerCost& cost, Deadline deadline) {
  problem.space.recompute = false;
  return NestedSearch(problem, RecomputedFloor(cost), deadline).run().lower_bound;
}

}  // namespace

Solution search(const Problem& problem, Deadline deadline) {
  const WorkerCost cost(problem.profile, problem.cluster, problem.pricing);
  Solution best = NestedSearch(problem, BottleneckPrice(cost, problem.space.recompute), deadline).run();
  if (recomputation_is_mutual(problem.space)) best.lower_bound = recomputed_bound(problem, cost, deadline);
  if (problem.space.free_backward) best.lower_bound = std::min(best.lower_bound, compute_bound(problem));
  best.lower_bound = std::min(best.lower_bound, best.price);
  return best;
}

}  // namespace sluice
