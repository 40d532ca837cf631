#include "optimizer/solver/node_pipelines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/cost_model.h"
#include "core/index.h"
#include "optimizer/solver/recompute.h"
#include "optimizer/solver/worker_objective.h"

namespace sluice {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

/// What later expansions have to know of the workers so far, counted from the last one: the nodes passed for good,
/// the group of nodes that the next worker may share, and how many ranks of each of these are taken.
struct State {
  int begin = 0;        ///< layers [begin, L) are done
  int passed = 0;       ///< nodes, from the order's end
  int group = 0;        ///< open nodes, in lockstep; 0: none
  int used = 0;         ///< ranks of each open node
  double nic = 0;       ///< seconds that each open node's NIC is busy so far
  double share = 0;     ///< of the micro-batches that the last worker runs on each open node; 0: no worker there yet
  int ranks = 0;        ///< of all workers so far
  bool across = false;  ///< the last worker's replicas lie on both sides of a node's border
  int parent = kNone;   ///< index into states_
};

/// The weaker of each: replicas run in step.
RankSpec weaker(RankSpec a, const RankSpec& b) {
  a.speed = std::min(a.speed, b.speed);
  a.memory_bytes = std::min(a.memory_bytes, b.memory_bytes);
  return a;
}

/// Group sizes worth a try: all of few nodes; of many, powers of two and divisors.
std::vector<int> group_sizes(int nodes) {
  std::vector<int> sizes;
  for (int size = 1; size <= nodes; ++size)
    if (size <= 8 || nodes % size == 0 || (size & (size - 1)) == 0) sizes.push_back(size);
  return sizes;
}

class Pass {
 public:
  /// @param charged  ranks of all workers, as far as memory depends on them
  Pass(const NodePipelines& pipelines, double limit, int charged, const NodeOrder& order, Deadline deadline);
  std::optional<std::vector<Worker>> run();

 private:
  void expand_layer(int begin);
  void skip_node(const State& from, int id);
  void open_groups(const State& from, int id);
  void close_group(const State& from, int id);
  void add_inside(const State& from, int id);
  void add_across(const State& from, int id);
  void add_workers(const State& from, State next, int replicas, const RankSpec& rank);
  void reach(const State& state);

  /// The layers where a worker that leads to `next` may begin: from the returned one downwards as long as it is
  /// affordable. The ranks left can compute the layers before.
  [[nodiscard]] int last_begin(const State& next) const;
  void count_least_ranks();
  [[nodiscard]] int ranks_left(const State& next) const;
  [[nodiscard]] bool never_fits(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const;
  [[nodiscard]] bool nic_allows(const State& from, State& next, const WorkerLoad& load, int replicas) const;
  [[nodiscard]] double cut_s(int border, double share) const {
    return nic_s(cost_, pipelines_.load(border, layers_), share);
  }
  [[nodiscard]] int nodes() const { return static_cast<int>(order_.size()); }
  [[nodiscard]] int size(int node) const { return static_cast<int>(order_[at(node)].size()); }
  [[nodiscard]] const RankSpec& rank(int node, int i) const { return cluster_.ranks[at(order_[at(node)][at(i)])]; }
  [[nodiscard]] int& place(const State& state);
  [[nodiscard]] std::vector<Worker> trace(int id) const;
  [[nodiscard]] Worker last_worker(const State& state) const;

  const NodePipelines& pipelines_;
  const WorkerCost& cost_;
  const Cluster& cluster_;
  const Pricing& pricing_;
  const SearchSpace& space_;
  double limit_;
  int charged_;
  Deadline deadline_;
  int layers_;
  NodeOrder order_;     ///< from the last rank of the last node on
  int most_ranks_ = 0;  ///< of a node
  bool equal_nodes_ = true;
  std::vector<int> group_sizes_;
  std::vector<int> index_of_size_;
  std::vector<std::vector<double>> speed_after_;  ///< of the ranks of one node from the i-th on
  std::vector<double> speed_from_;                ///< of the k-th and later nodes
  std::vector<int> ranks_from_;                   ///< likewise their number
  std::vector<int> least_before_;                 ///< ranks that layers [0, i) take at least, kNever if they cannot be
  std::vector<State> states_;
  std::vector<int> place_;                   ///< index into states_, kNone: not reached
  std::vector<std::vector<int>> by_begin_;   ///< states of earlier layers, not expanded yet
  std::vector<std::vector<int>> by_passed_;  ///< states of the layer under expansion
};

Pass::Pass(const NodePipelines& pipelines, double limit, int charged, const NodeOrder& order, Deadline deadline)
    : pipelines_(pipelines),
      cost_(pipelines.cost()),
      cluster_(cost_.cluster()),
      pricing_(cost_.pricing()),
      space_(pipelines.space()),
      limit_(limit),
      charged_(charged),
      deadline_(deadline),
      layers_(static_cast<int>(pipelines.layers().size())),
      order_(order.rbegin(), order.rend()),
      group_sizes_(group_sizes(static_cast<int>(order.size()))),
      index_of_size_(order.size() + 1),
      speed_from_(order.size() + 1),
      ranks_from_(order.size() + 1),
      by_begin_(at(layers_) + 1),
      by_passed_(order.size() + 1) {
  for (std::size_t i = 0; i < group_sizes_.size(); ++i) index_of_size_[at(group_sizes_[i])] = static_cast<int>(i) + 1;
  for (std::vector<Rank>& node : order_) {
    std::reverse(node.begin(), node.end());
    most_ranks_ = std::max(most_ranks_, static_cast<int>(node.size()));
    equal_nodes_ = equal_nodes_ && nodes_are_equal(cluster_, node, order_[0]);
    std::vector<double>& after = speed_after_.emplace_back(node.size() + 1);
    for (std::size_t i = node.size(); i-- > 0;) after[i] = after[i + 1] + cluster_.ranks[at(node[i])].speed;
  }
  for (int node = nodes() - 1; node >= 0; --node) {
    speed_from_[at(node)] = speed_from_[at(node + 1)] + speed_after_[at(node)][0];
    ranks_from_[at(node)] = ranks_from_[at(node + 1)] + size(node);
  }
  count_least_ranks();
  place_.assign(at(layers_ + 1) * order_.size() * (group_sizes_.size() + 1) * at(most_ranks_ + 1) +
                    (group_sizes_.size() + 1) * at(most_ranks_ + 1) * at(layers_ + 1),
                kNone);
}

/// As if all ranks were like the strongest and linked by the fast link.
void Pass::count_least_ranks() {
  RankSpec strongest{0, 0, 0};
  for (const RankSpec& rank : cluster_.ranks) {
    strongest.speed = std::max(strongest.speed, rank.speed);
    strongest.memory_bytes = space_.recompute ? kUnlimitedMemory : std::max(strongest.memory_bytes, rank.memory_bytes);
  }
  const BottleneckPrice price(cost_);
  const int most = std::min(space_.most_replicas, ranks_from_[0]);
  std::vector<int> least_from(at(layers_) + 1, kNever);
  const auto lower = [&](int& ranks, int others, int begin, int end) {
    if (others == kNever || least_from[at(end)] == kNever || ranks <= others) return;
    const Seat seat{1, least_from[at(end)], std::max(charged_, least_from[at(end)] + 1)};
    const int tries = std::min(most, ranks == kNever ? most : ranks - 1 - others);
    const int replicas = price.least_replicas(pipelines_.load(begin, end), seat, tries, strongest, limit_);
    if (replicas > 0) ranks = others + replicas;
  };
  least_from[at(layers_)] = 0;
  for (int begin = layers_ - 1; begin >= 0; --begin)
    for (int end = begin + 1; end <= layers_; ++end) lower(least_from[at(begin)], least_from[at(end)], begin, end);
  least_before_.assign(at(layers_) + 1, kNever);
  least_before_[0] = 0;
  for (int end = 1; end <= layers_; ++end)
    for (int begin = end - 1; begin >= 0; --begin) lower(least_before_[at(end)], least_before_[at(begin)], begin, end);
}

int& Pass::place(const State& state) {
  const int groups = static_cast<int>(group_sizes_.size()) + 1;
  const int group = state.group == 0 ? 0 : index_of_size_[at(state.group)];
  return place_[at(((state.begin * (nodes() + 1) + state.passed) * groups + group) * (most_ranks_ + 1) + state.used)];
}

std::optional<std::vector<Worker>> Pass::run() {
  if (least_before_[at(layers_)] > ranks_from_[0]) return std::nullopt;
  reach({layers_});
  for (int begin = layers_; begin >= 0; --begin) {
    if (std::chrono::steady_clock::now() > deadline_) return std::nullopt;
    expand_layer(begin);
  }
  for (int passed = space_.exactly ? nodes() : 1; passed <= nodes(); ++passed)
    if (const int id = place({0, passed}); id != kNone) return trace(id);
  return std::nullopt;
}

/// States lead to others of the same layer with more nodes passed, or of an earlier layer.
void Pass::expand_layer(int begin) {
  for (std::vector<int>& ids : by_passed_) ids.clear();
  for (const int id : by_begin_[at(begin)]) by_passed_[at(states_[at(id)].passed)].push_back(id);
  bool dominated = false;
  for (int passed = 0; passed <= nodes(); ++passed) {
    // Of equal nodes the fewest are best, if nothing has begun on the next.
    if (const int id = place({begin, passed}); id != kNone && !dominated && begin > 0) {
      const State from = states_[at(id)];
      skip_node(from, id);
      open_groups(from, id);
      dominated = equal_nodes_ && !space_.exactly;
    }
    for (std::size_t i = 0; i < by_passed_[at(passed)].size(); ++i) {
      const int id = by_passed_[at(passed)][i];
      const State from = states_[at(id)];
      if (from.group == 0) continue;
      close_group(from, id);
      add_inside(from, id);
      add_across(from, id);
    }
  }
}

void Pass::skip_node(const State& from, int id) {
  if (equal_nodes_ || space_.exactly || from.passed == nodes()) return;
  State next = from;
  ++next.passed;
  next.parent = id;
  if (last_begin(next) >= next.begin) reach(next);
}

void Pass::open_groups(const State& from, int id) {
  for (const int group : group_sizes_) {
    if (from.passed + group > nodes() || group > space_.most_replicas) return;
    const auto first = order_.begin() + from.passed;
    if (!std::all_of(first, first + group, [&](const auto& node) { return nodes_are_equal(cluster_, *first, node); }))
      return;
    reach({from.begin, from.passed, group, 0, 0, 0, from.ranks, false, id});
  }
}

void Pass::close_group(const State& from, int id) {
  if (from.used == 0 || (space_.exactly && from.used < size(from.passed))) return;
  if (from.nic + cut_s(from.begin, from.share) >= limit_) return;
  const State next{from.begin, from.passed + from.group, 0, 0, 0, 0, from.ranks, false, id};
  if (least_before_[at(next.begin)] <= ranks_left(next) && last_begin(next) >= next.begin) reach(next);
}

void Pass::add_inside(const State& from, int id) {
  RankSpec weakest{0, kInfinity, kUnlimitedMemory};
  State next = from;
  next.parent = id;
  next.across = false;
  next.share = share_of(pricing_, 1, from.group);
  while (next.used < size(from.passed) && (next.used + 1 - from.used) * from.group <= space_.most_replicas) {
    weakest = weaker(weakest, rank(from.passed, next.used++));
    next.ranks += from.group;
    add_workers(from, next, (next.used - from.used) * from.group, weakest);
  }
}

/// Workers with all ranks left of the open node, and some of the next nodes.
void Pass::add_across(const State& from, int id) {
  if (from.group != 1 || from.used == size(from.passed)) return;
  RankSpec weakest{0, kInfinity, kUnlimitedMemory};
  for (int i = from.used; i < size(from.passed); ++i) weakest = weaker(weakest, rank(from.passed, i));
  int replicas = size(from.passed) - from.used;
  for (int node = from.passed + 1; node < nodes(); ++node)
    for (int used = 1; used <= size(node); ++used) {
      weakest = weaker(weakest, rank(node, used - 1));
      if (++replicas > space_.most_replicas) return;
      const double share = share_of(pricing_, used, replicas);
      add_workers(from, {0, node, 1, used, 0, share, from.ranks + replicas, true, id}, replicas, weakest);
    }
}

/// Reaches `next` from every layer where the worker between the two may begin.
void Pass::add_workers(const State& from, State next, int replicas, const RankSpec& rank) {
  const int left = ranks_left(next);
  const Seat seat{replicas, next.ranks, std::max(charged_, next.ranks)};
  for (next.begin = std::min(from.begin - 1, last_begin(next)); next.begin >= 0; --next.begin) {
    const WorkerLoad& load = pipelines_.load(next.begin, from.begin);
    if (least_before_[at(next.begin)] > left) continue;
    if (cost_.compute_s(load, seat, rank.speed) >= limit_) return;
    const double price = pipelines_.price(next.begin, from.begin, seat, rank);
    if (price == kInfinity && !space_.recompute && never_fits(load, seat, rank)) return;
    if (price < limit_ && nic_allows(from, next, load, replicas)) reach(next);
  }
}

/// True if no worker fits that does all this and more: what it stashes of its own tensors only grows.
bool Pass::never_fits(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  WorkerLoad least;
  least.holdings.stashed = load.holdings.stashed + load.holdings.stashed_leaving;
  return cost_.memory_bytes(least, seat) > rank.memory_bytes;
}

/// Sets the NIC time of the nodes that `next` leaves open; false if a NIC is too busy.
bool Pass::nic_allows(const State& from, State& next, const WorkerLoad& load, int replicas) const {
  const bool reduces_across = next.across || next.group > 1;
  const double reduce = reduces_across ? nic_s(cost_, {}, 0, all_reduce_bytes(load, replicas)) : 0;
  if (!next.across) {
    // A group runs the same micro-batches in each of its workers; only one that reaches across has others.
    next.nic = from.nic + reduce + cut_s(from.begin, std::abs(next.share - from.share));
    return next.nic < limit_;
  }
  const double here = share_of(pricing_, size(from.passed) - from.used, replicas);
  const double met = here + from.share - 2 * here * from.share;
  double busiest = from.nic + cut_s(from.begin, met) + cut_s(next.begin, here) + reduce;
  for (int node = from.passed + 1; node < next.passed; ++node) {
    const double whole = share_of(pricing_, size(node), replicas);
    busiest = std::max(busiest, cut_s(from.begin, whole) + cut_s(next.begin, whole) + reduce);
  }
  next.nic = cut_s(from.begin, next.share) + reduce;
  return std::max(busiest, next.nic) < limit_;
}

int Pass::last_begin(const State& next) const {
  double speed = speed_from_[at(next.passed + next.group)];
  if (next.group > 0) speed += next.group * speed_after_[at(next.passed)][at(next.used)];
  return pipelines_.last_prefix_within(speed * limit_);
}

int Pass::ranks_left(const State& next) const {
  const int open = next.group == 0 ? 0 : next.group * (size(next.passed) - next.used);
  return ranks_from_[at(next.passed + next.group)] + open;
}

void Pass::reach(const State& state) {
  int& id = place(state);
  if (id == kNone) {
    id = static_cast<int>(states_.size());
    states_.push_back(state);
    by_begin_[at(state.begin)].push_back(id);
    by_passed_[at(state.passed)].push_back(id);
    return;
  }
  State& known = states_[at(id)];
  if (state.nic < known.nic || (state.nic == known.nic && state.ranks < known.ranks)) known = state;
}

std::vector<Worker> Pass::trace(int id) const {
  std::vector<Worker> workers;
  for (; states_[at(id)].parent != kNone; id = states_[at(id)].parent)
    if (states_[at(id)].begin < states_[at(states_[at(id)].parent)].begin)
      workers.push_back(last_worker(states_[at(id)]));
  return workers;
}

Worker Pass::last_worker(const State& state) const {
  const State& before = states_[at(state.parent)];
  Worker worker;
  for (int position = state.begin; position < before.begin; ++position)
    for (const Work work : works_of(space_.cuts)) worker.works.push_back({pipelines_.layers()[at(position)], work});
  if (state.across) {
    for (int node = before.passed; node <= state.passed; ++node)
      for (int i = node == before.passed ? before.used : 0; i < (node == state.passed ? state.used : size(node)); ++i)
        worker.ranks.push_back(order_[at(node)][at(i)]);
  } else {
    for (int i = before.used; i < state.used; ++i)
      for (int node = state.passed; node < state.passed + state.group; ++node)
        worker.ranks.push_back(order_[at(node)][at(i)]);
  }
  std::reverse(worker.ranks.begin(), worker.ranks.end());
  return worker;
}

}  // namespace

NodePipelines::NodePipelines(const WorkerCost& cost, const SearchSpace& space, std::vector<LayerId> layers)
    : cost_(&cost), space_(space), layers_(std::move(layers)) {
  loads_ = tabulate(false);
  if (space.recompute) recomputing_ = tabulate(true);
}

std::vector<std::vector<WorkerLoad>> NodePipelines::tabulate(bool recompute) const {
  std::vector<Work> works = works_of(space_.cuts);
  if (recompute) works.push_back(Work::recompute);
  std::vector<std::vector<WorkerLoad>> table;
  for (int end = 0; end <= std::ssize(layers_); ++end) {
    WorkerTally tally(*cost_);
    std::vector<WorkerLoad>& loads = table.emplace_back();
    loads.reserve(at(end) + 1);
    loads.push_back({});
    for (int begin = end - 1; begin >= 0; --begin) {
      for (const Work work : works) tally.add({layers_[at(begin)], work});
      loads.push_back(tally.load());
    }
  }
  return table;
}

double NodePipelines::price(int begin, int end, const Seat& seat, const RankSpec& rank) const {
  const WorkerLoad& kept = load(begin, end);
  const double price = cost_->price(kept, seat, rank);
  if (price < kInfinity || recomputing_.empty()) return price;
  const WorkerLoad& again = recomputing_[at(end)][at(end - begin)];
  const auto kept_bytes = cost_->memory_bytes(kept, seat), least_bytes = cost_->memory_bytes(again, seat);
  if (least_bytes > rank.memory_bytes) return kInfinity;
  WorkerLoad some = kept;
  some.compute_s += (again.compute_s - kept.compute_s) * static_cast<double>(kept_bytes - rank.memory_bytes) /
                    static_cast<double>(kept_bytes - least_bytes);
  return std::max(cost_->compute_s(some, seat, rank.speed), cost_->link_s(kept, seat));
}

std::vector<Worker> with_recomputation(std::vector<Worker> workers, const WorkerCost& cost) {
  constexpr int kSteps = 4096;  // a few milliseconds a worker
  int ranks_from_here = 0;
  for (const Worker& worker : workers) ranks_from_here += static_cast<int>(worker.ranks.size());
  const int ranks = ranks_from_here;
  for (Worker& worker : workers) {
    const Seat seat{static_cast<int>(worker.ranks.size()), ranks_from_here, ranks};
    ranks_from_here -= seat.replicas;
    RankSpec weakest = cost.cluster().ranks[at(worker.ranks.front())];
    for (const Rank rank : worker.ranks) weakest = weaker(weakest, cost.cluster().ranks[at(rank)]);
    WorkerTally tally(cost);
    for (const LayerWork& work : worker.works) tally.add(work);
    if (cost.memory_bytes(tally.load(), seat) <= weakest.memory_bytes) continue;
    for (const LayerId layer : best_recomputation(tally, cost, seat, weakest, kSteps).layers)
      worker.works.push_back({layer, Work::recompute});
  }
  return workers;
}

std::optional<std::vector<Worker>> NodePipelines::below(double limit, const NodeOrder& order, Deadline deadline) const {
  // The more ranks memory is charged for, the more are needed: the least charge that holds is met by rising.
  const int all = static_cast<int>(cost_->cluster().ranks.size());
  int charged = space_.exactly || !memory_is_limited(cost_->cluster()) ? all : 1;
  for (;;) {
    std::optional<std::vector<Worker>> found = Pass(*this, limit, charged, order, deadline).run();
    int used = 0;
    if (found)
      for (const Worker& worker : *found) used += static_cast<int>(worker.ranks.size());
    if (used <= charged) return found;
    charged = used;
  }
}

int NodePipelines::last_prefix_within(double seconds) const {
  const auto beyond = std::upper_bound(loads_.begin(), loads_.end(), seconds,
                                       [](double s, const auto& loads) { return s < loads.back().compute_s; });
  return static_cast<int>(beyond - loads_.begin()) - 1;
}

double nic_s(const WorkerCost& cost, const WorkerLoad& border, double share, double step_bytes) {
  if (cost.pricing().compute_only) return 0;
  const double bytes = share * std::max(border.received_bytes, border.sent_bytes);
  return (bytes + step_bytes / microbatches_per_update(cost.pricing())) /
         cost.cluster().inter_node.bandwidth_bytes_per_s;
}

double all_reduce_bytes(const WorkerLoad& load, int replicas) { return ring_share(replicas) * load.updated_bytes; }

double share_of(const Pricing& pricing, int members, int replicas) {
  const int each = microbatches_of(0, replicas, pricing.microbatches);
  return std::min(1.0, static_cast<double>(members) * each / pricing.microbatches);
}

bool nodes_are_equal(const Cluster& cluster, const std::vector<Rank>& a, const std::vector<Rank>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](Rank i, Rank j) { return alike(cluster.ranks[at(i)], cluster.ranks[at(j)]); });
}

}  // namespace sluice
