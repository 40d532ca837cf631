#include "optimizer/solver/enumeration_choices.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/solver/work_graph.h"

namespace sluice {
namespace {

struct BySizeThenLayers {
  bool operator()(const LayerSet& a, const LayerSet& b) const {
    if (a.count() != b.count()) return a.count() < b.count();
    const LayerSet difference = a ^ b;
    const std::size_t first = difference._Find_first();
    return first < difference.size() && a.test(first);
  }
};

}  // namespace

std::vector<LayerSet> layer_ideals(const Model& model, bool of_the_dag, std::size_t most) {
  if (model.layers.size() > kMostLayers)
    throw infeasible(text("enumeration takes models of up to ", kMostLayers, " layers, not ", model.layers.size(),
                          ": use --method dp or ilp"));
  std::vector<LayerSet> before(model.layers.size());
  const std::vector<std::vector<LayerId>> first = layers_before(model, of_the_dag);
  for (std::size_t layer = 0; layer < first.size(); ++layer)
    for (const LayerId other : first[layer]) before[layer].set(at(other));
  std::set<LayerSet, BySizeThenLayers> ideals{LayerSet()};
  for (auto ideal = ideals.begin(); ideal != ideals.end(); ++ideal)
    for (std::size_t layer = 0; layer < before.size(); ++layer)
      if (!ideal->test(layer) && (before[layer] & ~*ideal).none()) {
        ideals.insert(LayerSet(*ideal).set(layer));
        if (ideals.size() > most)
          throw infeasible(text("the model's graph has more than ", most,
                                " ideals: use --method dp or ilp, or intervals of its order"));
      }
  return {ideals.begin(), ideals.end()};
}

RankGroups::RankGroups(const Problem& problem)
    : most_replicas_(problem.space.most_replicas), order_(problem.cluster.ranks.size()) {
  const std::vector<RankSpec>& ranks = problem.cluster.ranks;
  std::iota(order_.begin(), order_.end(), 0);
  sort_replicas(order_, problem.cluster);
  for (const RankSpec& rank : ranks) node_of_.push_back(rank.node);
  find_runs(problem);
  find_twins(problem.cluster);
}

/// Ranks may change places when nothing depends on their order: they are alike and neighbours in the order of
/// owners, and none passes on what reaches a node for several (one rank a node, one
/// node, or no traffic).
void RankGroups::find_runs(const Problem& problem) {
  const std::vector<RankSpec>& ranks = problem.cluster.ranks;
  const bool none_passes_on = problem.pricing.compute_only || linked_alike(problem.cluster);
  next_run_.resize(order_.size(), order_.size());
  for (std::size_t place = order_.size() - 1; place-- > 0;) {
    const bool same_run = none_passes_on && alike(ranks[at(order_[place])], ranks[at(order_[place + 1])]);
    next_run_[place] = same_run ? next_run_[place + 1] : place + 1;
  }
}

/// Whole nodes may change places unless a group spans several: the order of its owners would change.
void RankGroups::find_twins(const Cluster& cluster) {
  node_.resize(cluster.node_names.size());
  twin_.resize(node_.size(), kNone);
  if (most_replicas_ > 1) return;
  for (const Rank rank : order_) node_[at(node_of_[at(rank)])].push_back(rank);
  for (int node = 0; node < std::ssize(node_); ++node)
    for (int earlier = 0; earlier < node; ++earlier)
      if (std::equal(node_[at(node)].begin(), node_[at(node)].end(), node_[at(earlier)].begin(),
                     node_[at(earlier)].end(),
                     [&](Rank a, Rank b) { return alike(cluster.ranks[at(a)], cluster.ranks[at(b)]); }))
        twin_[at(node)] = earlier;
}

/// The first rank of a node is not used before that of an equal node.
bool RankGroups::twin_comes_first(int node, const std::vector<bool>& used) const {
  const int twin = twin_[at(node)];
  if (twin == kNone) return false;
  const auto untouched = [&](int n) {
    return std::none_of(node_[at(n)].begin(), node_[at(n)].end(), [&](Rank rank) { return used[at(rank)]; });
  };
  return untouched(node) && untouched(twin);
}

double RankGroups::ways(int workers) const {
  const std::size_t ranks = order_.size();
  const bool one_run = next_run_.front() == ranks;  // then only the sizes of groups differ
  std::vector<double> ways(ranks + 1, 0.0);         // by ranks used
  ways[0] = 1;
  for (int worker = 0; worker < workers; ++worker) {
    std::vector<double> more(ranks + 1, 0.0);
    for (std::size_t used = 0; used < ranks; ++used) {
      double choices = 1;  // binomial(ranks - used, size)
      for (std::size_t size = 1; size <= at(most_replicas_) && used + size <= ranks; ++size) {
        choices *= static_cast<double>(ranks - used - size + 1) / static_cast<double>(size);
        more[used + size] += ways[used] * (one_run ? 1 : choices);
      }
    }
    ways = std::move(more);
  }
  return std::accumulate(ways.begin(), ways.end(), 0.0);
}

std::vector<std::vector<Rank>> RankGroups::among(const std::vector<bool>& used) const {
  std::vector<std::vector<Rank>> groups;
  std::vector<Rank> taken;
  take(0, taken, used, groups);
  return groups;
}

void RankGroups::take(std::size_t place, std::vector<Rank>& taken, const std::vector<bool>& used,
                      std::vector<std::vector<Rank>>& groups) const {
  while (place < order_.size() && used[at(order_[place])]) ++place;
  if (place == order_.size() || std::ssize(taken) == most_replicas_) {
    if (!taken.empty()) groups.push_back(taken);
    return;
  }
  const Rank rank = order_[place];
  if (!twin_comes_first(node_of_[at(rank)], used)) {
    taken.push_back(rank);
    take(place + 1, taken, used, groups);
    taken.pop_back();
  }
  take(next_run_[place], taken, used, groups);
}

}  // namespace sluice
