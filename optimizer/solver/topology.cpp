#include "optimizer/solver/topology.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/index.h"
#include "optimizer/solver/local_search.h"
#include "optimizer/solver/node_groups.h"
#include "optimizer/solver/node_pipelines.h"
#include "optimizer/solver/search.h"

namespace sluice {
namespace {

/// The most orders of unequal nodes that are tried.
constexpr std::size_t kMostOrders = 24;

/// A cluster as seen from inside a node: each rank on the faster link, whoever it talks to.
Cluster inside_of(Cluster cluster) {
  for (RankSpec& rank : cluster.ranks) rank.node = 0;
  return cluster;
}

std::vector<std::pair<double, std::int64_t>> kind_of(const Cluster& cluster, const std::vector<Rank>& node) {
  std::vector<std::pair<double, std::int64_t>> kind;
  for (const Rank rank : node) kind.emplace_back(cluster.ranks[at(rank)].speed, cluster.ranks[at(rank)].memory_bytes);
  return kind;
}

/// Orders of the nodes that differ; of ranks inside nodes, fastest first or last.
std::vector<NodeOrder> node_orders(const Cluster& cluster) {
  NodeOrder nodes = ranks_by_node(cluster);
  std::erase_if(nodes, [](const std::vector<Rank>& node) { return node.empty(); });
  const auto by_kind = [&](const std::vector<Rank>& a, const std::vector<Rank>& b) {
    return kind_of(cluster, a) < kind_of(cluster, b);
  };
  std::vector<NodeOrder> orders;
  for (const bool fastest_first : {true, false}) {
    for (std::vector<Rank>& node : nodes)
      std::stable_sort(node.begin(), node.end(), [&](Rank a, Rank b) {
        const double speed_a = cluster.ranks[at(a)].speed, speed_b = cluster.ranks[at(b)].speed;
        return fastest_first ? speed_a > speed_b : speed_a < speed_b;
      });
    std::stable_sort(nodes.begin(), nodes.end(), by_kind);
    do {
      if (std::find(orders.begin(), orders.end(), nodes) == orders.end()) orders.push_back(nodes);
    } while (orders.size() < kMostOrders && std::next_permutation(nodes.begin(), nodes.end(), by_kind));
  }
  return orders;
}

/// The cluster with a node, and so a NIC, for each rank.
Cluster spread_out(Cluster cluster) {
  cluster.node_names.resize(cluster.ranks.size());
  for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank) cluster.ranks[at(rank)].node = rank;
  return cluster;
}

std::vector<Worker> workers_of(const std::vector<Stage>& stages) {
  std::map<int, Worker> workers;
  for (const Stage& stage : stages) {
    Worker& worker = workers[stage.index];
    worker.ranks = stage.owners;
    for (const LayerId layer : stage.layers) worker.works.push_back({layer, stage.work});
  }
  std::vector<Worker> list;
  for (auto& [index, worker] : workers) list.push_back(std::move(worker));
  return list;
}

/// What NodePipelines looks for.
SearchSpace joint(SearchSpace space) {
  space.cuts = Cuts::joint;
  space.recompute = space.ideals = space.free_backward = false;
  return space;
}

/// The layers as the workers' forwards pass them.
std::vector<LayerId> order_of(const std::vector<Worker>& workers) {
  std::vector<LayerId> order;
  for (Worker worker : workers) {
    std::sort(worker.works.begin(), worker.works.end(), [](auto a, auto b) { return a.layer < b.layer; });
    for (const LayerWork& own : worker.works)
      if (own.work == Work::forward) order.push_back(own.layer);
  }
  return order;
}

class Placement {
 public:
  Placement(const Problem& problem, Deadline deadline)
      : problem_(problem),
        deadline_(deadline),
        inside_(inside_of(problem.cluster)),
        cost_(problem.profile, inside_, problem.pricing),
        orders_(node_orders(problem.cluster)) {}

  Solution run();

 private:
  Solution try_uniform(const Cluster& cluster, const SearchSpace& space);
  [[nodiscard]] Deadline third_of_the_time_left() const;
  void try_ideals();
  void try_pipelines(const NodePipelines& pipelines, double bound);
  void try_pipelines(const NodePipelines& pipelines, const NodeOrder& order, double bound);
  void try_groups(const NodePipelines& pipelines, const SearchSpace& space);
  void consider(const std::vector<Worker>& workers);
  [[nodiscard]] bool late() const { return std::chrono::steady_clock::now() > deadline_; }
  [[nodiscard]] bool proven() const { return price_ <= lower_bound_ * kRounding; }

  const Problem& problem_;
  Deadline deadline_;
  Cluster inside_;
  WorkerCost cost_;
  std::vector<NodeOrder> orders_;
  std::vector<Worker> best_;
  double price_ = kInfinity;
  double lower_bound_ = 0;
  bool timed_out_ = false;
};

Solution Placement::run() {
  const SearchSpace &space = problem_.space, joint_space = joint(space);
  const bool more = space.cuts != Cuts::joint || space.recompute || space.ideals || space.free_backward;
  const double joint_bound = try_uniform(problem_.cluster, joint_space).lower_bound;
  lower_bound_ = more ? compute_bound(problem_) : joint_bound;
  std::vector<LayerId> layers(problem_.profile.model.layers.size());
  std::iota(layers.begin(), layers.end(), 0);
  const NodePipelines pipelines(cost_, space, layers);
  if (!proven()) try_pipelines(pipelines, joint_bound);
  if (!proven()) try_uniform(spread_out(problem_.cluster), joint_space);
  if (more && !proven()) lower_bound_ = std::max(lower_bound_, try_uniform(problem_.cluster, space).lower_bound);
  if (more && !proven()) try_groups(pipelines, space);
  if (space.ideals && !proven()) try_ideals();
  if (!proven() && !best_.empty()) consider(improve(problem_, best_, deadline_));
  return {best_.empty() ? std::vector<Stage>{} : stages_of(best_), price_, lower_bound_, timed_out_ || late()};
}

/// Tries the plan that is best where all links are alike. On the problem's own cluster its lower bound is one of
/// all plans of the space.
Solution Placement::try_uniform(const Cluster& cluster, const SearchSpace& space) {
  try {
    Solution found = search({problem_.profile, cluster, problem_.pricing, space}, third_of_the_time_left());
    timed_out_ = timed_out_ || found.timed_out;
    // Where cuts may be three, backwards are two works even if they are cut alike.
    const bool in_space = (space.cuts == Cuts::three) == (problem_.space.cuts == Cuts::three);
    if (found.found() && in_space) consider(workers_of(found.stages));
    return found;
  } catch (const Error&) {
    return {};  // too many ideals to search
  }
}

/// No step takes all the time from the next ones.
Deadline Placement::third_of_the_time_left() const {
  const Deadline now = std::chrono::steady_clock::now();
  return deadline_ == kNoDeadline ? kNoDeadline : now + (deadline_ - now) / 3;
}

/// Pipelines over the order of the layers in which the best joint ideals are intervals.
void Placement::try_ideals() {
  SearchSpace space = joint(problem_.space);
  space.ideals = true;
  const Solution found = try_uniform(problem_.cluster, space);
  if (!found.found()) return;
  const NodePipelines pipelines(cost_, problem_.space, order_of(workers_of(found.stages)));
  try_pipelines(pipelines, found.lower_bound);
  try_groups(pipelines, problem_.space);
}

void Placement::try_pipelines(const NodePipelines& pipelines, double bound) {
  for (const NodeOrder& order : orders_)
    if (!proven()) try_pipelines(pipelines, order, bound);
}

/// Pipelines below limits that rise until there is one; then the least limit is bracketed.
/// @param bound  no jointly cut pipeline costs less
void Placement::try_pipelines(const NodePipelines& pipelines, const NodeOrder& order, double bound) {
  const auto found_below = [&](double limit) {
    const auto workers = pipelines.below(limit, order, deadline_);
    if (workers) consider(problem_.space.recompute ? with_recomputation(*workers, cost_) : *workers);
    return workers.has_value();
  };
  double hopeless = bound, enough = price_;
  for (double slack = 1e-3; bound * (1 + slack) < enough && slack < 1e3; slack *= 4) {
    const double limit = bound * (1 + slack);
    if (found_below(limit))
      enough = std::min(price_, limit);
    else
      hopeless = limit;
  }
  if (enough == kInfinity && !found_below(kInfinity)) return;
  enough = std::min(enough, price_);
  constexpr double kClose = 1 + 1e-3;
  while (enough > hopeless * kClose && !late()) {
    const double middle = hopeless > 0 ? std::sqrt(hopeless * enough) : enough / 2;
    if (found_below(middle))
      enough = std::min(middle, price_);
    else
      hopeless = middle;
  }
  for (double last = kInfinity; price_ < last && !late(); found_below(last)) last = price_;
}

void Placement::try_groups(const NodePipelines& pipelines, const SearchSpace& space) {
  const Deadline groups_end = third_of_the_time_left();
  try {
    NodeGroups groups(pipelines, space);
    for (const NodeOrder& order : orders_)
      if (const auto workers = groups.best(price_, order, groups_end); !workers.empty()) consider(workers);
  } catch (const Error&) {  // too many ideals to search
    SearchSpace joint_space = space;
    joint_space.cuts = Cuts::joint;
    if (space.cuts != Cuts::joint) try_groups(pipelines, joint_space);
  }
}

void Placement::consider(const std::vector<Worker>& workers) {
  const double price = price_of(problem_, stages_of(workers));
  if (price >= price_) return;
  price_ = price;
  best_ = workers;
}

}  // namespace

Solution solve_on_nodes(const Problem& problem, Deadline deadline) { return Placement(problem, deadline).run(); }

}  // namespace sluice
