#include <algorithm>
#include <utility>
#include <vector>

#include "core/index.h"
#include "optimizer/solver/solver.h"

// A state is (forward prefix, backward prefix, workers used, ranks passed); its
// value is the least possible largest price of the workers so far. A worker's
// price depends on its own share and place alone, so the value of a state says
// all that later workers need to know of earlier ones: dynamic programming is
// exact, with traffic and memory.
//
// What keeps it fast, and why it stays exact:
// - Only prices below a limit count, and states that cannot be completed below it
//   are dropped (Objective::hopeless, least_backward_done: both are bounds). Near
//   the optimum few backward prefixes fit a forward prefix: a narrow band.
// - The limit rises from the lower bound in growing steps; the first pass that
//   finds a solution has the optimum, because within a pass nothing below its
//   limit is lost.
// - No state is dropped because another has got further: that is true of compute
//   alone, where a remainder's subset costs no more, but with traffic or memory
//   a longer prefix may cut at a dearer place.
namespace sluice {
namespace {

struct Option {
  LayerId forward_end = 0;
  LayerId backward_end = 0;
  double price = 0;
};

class Pass {
 public:
  Pass(const Objective& objective, Cuts cuts, double limit)
      : objective_(objective),
        cuts_(cuts),
        workers_(objective.workers()),
        limit_(limit),
        tally_(objective.cost()),
        backward_ends_(at(objective.layers() + 1)),
        levels_(at(workers_) + 1),
        place_of_state_(at((objective.layers() + 1) * (objective.layers() + 1)), kNone) {}

  std::optional<PartitionSolution> run();

 private:
  struct Node {
    LayerId forward_done = 0;
    LayerId backward_done = 0;
    double value = 0;
    Rank rank = kNone;   ///< whose share ends here
    int parent = kNone;  ///< index into nodes_
  };
  using Level = std::vector<int>;  ///< indices into nodes_, one per state

  void expand_level(int used, Rank rank);
  void expand_jointly(Progress next);
  void expand_independently(Progress next);
  void visit_backward_ends(Progress next, LayerId begin);
  void find_backward_ends(Progress next);
  void consider(const Progress& next);
  void reach(Level& level, const Node& node);
  [[nodiscard]] bool affordable(const Progress& next) const {
    return objective_.floor(tally_.load(), next.next_rank - 1) < limit_;
  }
  [[nodiscard]] int& place_of(const Node& node) {
    return place_of_state_[at(node.forward_done * (objective_.layers() + 1) + node.backward_done)];
  }
  [[nodiscard]] PartitionSolution trace(int node) const;

  const Objective& objective_;
  Cuts cuts_;
  int workers_;
  double limit_;
  ShareTally tally_;  ///< of the share under consideration
  std::vector<std::pair<LayerId, LayerId>> backward_ends_;
  std::vector<Option> options_;  ///< affordable shares of the worker under consideration
  std::vector<Node> nodes_;
  std::vector<Level> levels_;        ///< by workers used, over the ranks passed so far
  std::vector<int> place_of_state_;  ///< in the level being written; kNone: not reached
};

bool ranks_are_equal(const Cluster& cluster) {
  return std::all_of(cluster.ranks.begin(), cluster.ranks.end(), [&](const RankSpec& rank) {
    return rank.speed == cluster.ranks[0].speed && rank.memory_bytes == cluster.ranks[0].memory_bytes;
  });
}

std::optional<PartitionSolution> Pass::run() {
  nodes_.push_back({});
  levels_[0] = {0};
  // Equal ranks are used from the first on; of unequal ones any may be left out.
  const int ranks = ranks_are_equal(objective_.cost().cluster()) ? workers_ : objective_.ranks();
  for (Rank rank = 0; rank < ranks; ++rank) {
    const int most = std::min(rank, workers_ - 1);
    const int least = std::max(0, workers_ - (ranks - rank));
    for (int used = most; used >= least; --used) expand_level(used, rank);
  }
  const Level& complete = levels_[at(workers_)];
  if (complete.empty()) return std::nullopt;
  return trace(complete.front());  // (L, L) is its only state
}

/// Lets `rank` be the next worker after every state with `used` workers.
void Pass::expand_level(int used, Rank rank) {
  Level& to = levels_[at(used + 1)];
  for (std::size_t i = 0; i < to.size(); ++i) place_of(nodes_[at(to[i])]) = static_cast<int>(i);
  if (cuts_ == Cuts::independent) find_backward_ends({rank + 1, used + 1});
  for (const int id : levels_[at(used)]) {
    const Node from = nodes_[at(id)];
    options_.clear();
    tally_.restart({rank, used, workers_}, from.forward_done, from.backward_done);
    const Progress next{rank + 1, used + 1, from.forward_done, from.backward_done};
    cuts_ == Cuts::joint ? expand_jointly(next) : expand_independently(next);
    for (const Option& option : options_)
      reach(to, {option.forward_end, option.backward_end, std::max(option.price, from.value), rank, id});
  }
  for (const int id : to) place_of(nodes_[at(id)]) = kNone;
}

void Pass::expand_jointly(Progress next) {
  while (next.forward_done < objective_.layers() && affordable(next)) {
    tally_.grow_forward();
    tally_.grow_backward();
    next.backward_done = ++next.forward_done;
    consider(next);
  }
}

void Pass::expand_independently(Progress next) {
  const int layers = objective_.layers();
  const LayerId begin = next.backward_done;
  for (;; ++next.forward_done, tally_.grow_forward()) {
    visit_backward_ends(next, begin);
    const bool forward_alone = tally_.share().backward_end == begin;
    if (next.forward_done == layers || (forward_alone && !affordable(next))) return;
  }
}

/// Considers all affordable backward ends from which the others can finish. The
/// tally walks there from the ends of the last forward end, which are near.
void Pass::visit_backward_ends(Progress next, LayerId begin) {
  const auto [first, last] = backward_ends_[at(next.forward_done)];
  const LayerId least = std::max(begin, first);
  if (least > last) return;
  while (tally_.share().backward_end > least) tally_.shrink_backward();
  while (affordable(next)) {
    next.backward_done = tally_.share().backward_end;
    if (next.backward_done >= least) consider(next);
    if (next.backward_done >= last) return;
    tally_.grow_backward();
  }
}

/// For each forward end, the first and last backward end from which the workers after `next` can finish.
void Pass::find_backward_ends(Progress next) {
  const int layers = objective_.layers();
  for (next.forward_done = 0; next.forward_done <= layers; ++next.forward_done) {
    auto& [first, last] = backward_ends_[at(next.forward_done)];
    first = last = layers;
    if (next.used == workers_) {  // takes all that is left
      if (next.forward_done < layers) last = kNone;
      continue;
    }
    const auto no_way = [&](LayerId end) {
      next.backward_done = end;
      return objective_.hopeless(next, limit_);
    };
    first = objective_.least_backward_done(next, limit_);
    while (first <= layers && no_way(first)) ++first;
    while (last >= first && no_way(last)) --last;
  }
}

/// Keeps the share if it is below the limit and the others can finish below it.
void Pass::consider(const Progress& next) {
  // Every worker is to have work, and the last takes what is left.
  const int undone = 2 * objective_.layers() - next.forward_done - next.backward_done;
  const int left = workers_ - next.used;
  if (tally_.share().empty() || undone < left || (left == 0 && undone > 0)) return;
  const double price = objective_.price(tally_.load(), next.next_rank - 1);
  if (price < limit_ && !objective_.hopeless(next, limit_))
    options_.push_back({next.forward_done, next.backward_done, price});
}

void Pass::reach(Level& level, const Node& node) {
  int& place = place_of(node);
  if (place == kNone) {
    place = static_cast<int>(level.size());
    level.push_back(static_cast<int>(nodes_.size()));
    nodes_.push_back(node);
    return;
  }
  int& id = level[at(place)];
  if (nodes_[at(id)].value <= node.value) return;
  // A node of an earlier rank may be a parent already and stays as it is.
  if (nodes_[at(id)].rank == node.rank) {
    nodes_[at(id)] = node;
  } else {
    id = static_cast<int>(nodes_.size());
    nodes_.push_back(node);
  }
}

PartitionSolution Pass::trace(int id) const {
  const int ranks = objective_.ranks();
  PartitionSolution solution{
      {std::vector<int>(at(ranks) + 1), std::vector<int>(at(ranks) + 1)}, workers_, nodes_[at(id)].value};
  // Ranks without work end where the worker before them ends.
  for (int bound = ranks; bound >= 0; --bound) {
    while (nodes_[at(id)].rank >= bound) id = nodes_[at(id)].parent;
    solution.partition.forward_bounds[at(bound)] = nodes_[at(id)].forward_done;
    solution.partition.backward_bounds[at(bound)] = nodes_[at(id)].backward_done;
  }
  return solution;
}

}  // namespace

std::optional<PartitionSolution> solve_dp(const Objective& objective, Cuts cuts, double limit) {
  const double least = objective.lower_bound();
  for (double slack = 1e-3; least > 0 && least * (1 + slack) < limit && slack < 1e3; slack *= 4)
    if (auto solution = Pass(objective, cuts, least * (1 + slack)).run()) return solution;
  return Pass(objective, cuts, limit).run();
}

}  // namespace sluice
