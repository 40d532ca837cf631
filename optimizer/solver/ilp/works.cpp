#include "optimizer/solver/ilp/works.h"

#include <algorithm>
#include <map>
#include <set>

#include "optimizer/solver/ilp/loads.h"
#include "optimizer/solver/work_graph.h"

namespace sluice {
namespace {

bool is_one(double value) { return value > 0.5; }

}  // namespace

WorkColumns::WorkColumns(Mip& mip, const Problem& problem, const Seating* seating) : mip_(mip), problem_(problem) {
  add_deals();
  cut_layers();
  if (seating != nullptr) {
    take_seats(*seating);
  } else {
    choose_seats();
    for (const Deal& deal : deals_) follow_seats(deal);
    order_equal_nodes();
    order_equal_ranks();
  }
  if (problem.space.exactly) give_all_work();
  choose_recompute();
  mark_used();
}

std::size_t WorkColumns::deal_of(Work work) const {
  if (work == Work::forward) return 0;
  return std::min<std::size_t>(work == Work::backward_weight && three() ? 2 : 1, deals_.size() - 1);
}

const Place& WorkColumns::place(Work work, LayerId layer) const { return deals_[deal_of(work)].places[at(layer)]; }

void WorkColumns::add_deals() {
  const bool free = problem_.space.free_backward;
  const auto cuts = static_cast<std::size_t>(problem_.space.cuts) + 1;
  const std::size_t deals = free ? std::max<std::size_t>(cuts, 2) : cuts;
  for (std::size_t d = 0; d < deals; ++d) add_deal(std::min(d, cuts - 1), free ? d : 0);
}

void WorkColumns::add_deal(std::size_t cut, std::size_t seating) {
  Deal deal{.places = {}, .cut = cut, .seating = seating};
  for (LayerId layer = 0; layer < layers(); ++layer) {
    Place place;
    Terms somewhere;
    for (Rank rank = 0; rank < ranks(); ++rank) {
      place.push_back(mip_.add({.whole = true}));
      somewhere.push_back({place.back()});
    }
    mip_.equal(1, somewhere);
    deal.places.push_back(std::move(place));
  }
  deals_.push_back(std::move(deal));
}

/// Pairs of layers of which the first stands at no later position.
std::vector<std::pair<LayerId, LayerId>> WorkColumns::order() const {
  std::vector<std::pair<LayerId, LayerId>> pairs;
  const auto before = layers_before(problem_.profile.model, problem_.space.ideals);
  for (LayerId layer = 0; layer < layers(); ++layer)
    for (const LayerId first : before[at(layer)]) pairs.emplace_back(first, layer);
  return pairs;
}

void WorkColumns::cut_layers() {
  const std::size_t cuts = deals_.back().cut + 1;
  for (std::size_t cut = 0; cut < cuts; ++cut) {
    ByLayer& before = before_.emplace_back(at(layers()));
    for (std::vector<int>& layer : before) {
      for (int k = 0; k < ranks(); ++k) layer.push_back(mip_.add({.lower = k + 1 == ranks() ? 1.0 : 0.0}));
      for (int k = 1; k < ranks(); ++k) mip_.at_least(0, {{layer[at(k)], 1}, {layer[at(k - 1)], -1}});
    }
    for (const auto& [first, second] : order())
      for (int k = 0; k + 1 < ranks(); ++k)
        mip_.at_least(0, {{before[at(first)][at(k)], 1}, {before[at(second)][at(k)], -1}});
  }
}

/// A rank without work of some kind has no seat for it, which matters where that seat comes first.
void WorkColumns::take_seats(const Seating& seating) {
  const int nowhere = mip_.add({.upper = 0}), always = mip_.add({.lower = 1});
  for (std::size_t kind = 0; kind < seating.size(); ++kind) {
    ByLayer& seats = seats_.emplace_back(at(ranks()), std::vector<int>(at(ranks()), nowhere));
    for (Rank rank = 0; rank < ranks(); ++rank)
      seats[at(rank)][at(seating[kind][at(rank)])] = problem_.space.free_backward ? mip_.add({}) : always;
  }
  for (const Deal& deal : deals_) stand(deal, seating[deal.seating]);
}

void WorkColumns::stand(const Deal& deal, const std::vector<int>& positions) {
  for (LayerId layer = 0; layer < layers(); ++layer)
    for (Rank rank = 0; rank < ranks(); ++rank) {
      const int k = positions[at(rank)], here = deal.places[at(layer)][at(rank)];
      const std::vector<int>& before = before_[deal.cut][at(layer)];
      Terms terms{{before[at(k)], 1}, {here, -1}};
      if (k > 0) terms.push_back({before[at(k - 1)], -1});
      mip_.equal(0, std::move(terms));
      if (problem_.space.free_backward) mip_.one_where(seats_[deal.seating][at(rank)][at(k)], {{{here}}});
    }
}

/// One seat for each rank, or with free backwards at most one for each kind of work.
void WorkColumns::choose_seats() {
  const bool free = problem_.space.free_backward;
  const std::size_t seatings = deals_.back().seating + 1;
  for (std::size_t seating = 0; seating < seatings; ++seating) {
    ByLayer& seats = seats_.emplace_back(at(ranks()));
    std::vector<Terms> who(at(ranks()));
    for (std::vector<int>& rank : seats) {
      Terms where;
      for (int k = 0; k < ranks(); ++k) {
        rank.push_back(mip_.add({.whole = true}));
        where.push_back({rank.back()});
        who[at(k)].push_back({rank.back()});
      }
      mip_.rows.push_back({free ? 0.0 : 1.0, 1, std::move(where)});
    }
    for (Terms& there : who) mip_.rows.push_back({free ? 0.0 : 1.0, 1, std::move(there)});
  }
}

/// Of a rank that stands at a position in [first, last].
Terms WorkColumns::seated(std::size_t seating, Rank rank, int first, int last) const {
  Terms terms;
  for (int k = first; k <= last; ++k) terms.push_back({seats_[seating][at(rank)][at(k)]});
  return terms;
}

/// A layer stands where its rank does.
void WorkColumns::follow_seats(const Deal& deal) {
  for (LayerId layer = 0; layer < layers(); ++layer)
    for (Rank rank = 0; rank < ranks(); ++rank) {
      const Term here{deal.places[at(layer)][at(rank)], -1};
      const std::vector<int>& before = before_[deal.cut][at(layer)];
      for (int k = 0; k + 1 < ranks(); ++k) {
        // before[k] >= here + (the rank is at <= k) - 1, and before[k] <= 2 - here - (the rank is at > k).
        Terms early{{before[at(k)], 1}, here}, late{{before[at(k)], -1}, here};
        append(early, seated(deal.seating, rank, 0, k), -1);
        append(late, seated(deal.seating, rank, k + 1, ranks() - 1), -1);
        mip_.at_least(-1, std::move(early));
        mip_.at_least(-2, std::move(late));
      }
      Terms needs_a_seat = seated(deal.seating, rank, 0, ranks() - 1);
      needs_a_seat.push_back(here);
      mip_.at_least(0, std::move(needs_a_seat));
    }
}

/// Of neighbouring nodes that are alike as wholes, the first is seated first.
void WorkColumns::order_equal_nodes() {
  const auto nodes = ranks_by_node(problem_.cluster);
  const auto same = [&](Rank a, Rank b) { return alike(problem_.cluster.ranks[at(a)], problem_.cluster.ranks[at(b)]); };
  for (std::size_t n = 1; n < nodes.size(); ++n) {
    if (!std::equal(nodes[n].begin(), nodes[n].end(), nodes[n - 1].begin(), nodes[n - 1].end(), same)) continue;
    for (int k = 0; k < ranks(); ++k) {
      Terms terms;
      for (const Rank rank : nodes[n - 1]) append(terms, seated(0, rank, 0, k - 1));
      for (const Rank rank : nodes[n]) append(terms, seated(0, rank, k, k), -1);
      mip_.at_least(0, std::move(terms));
    }
  }
}

/// Of neighbouring ranks of a node that are alike, the first is seated first. Their numbers matter
/// where what enters a node comes to the lowest rank that needs it.
void WorkColumns::order_equal_ranks() {
  const std::vector<RankSpec>& specs = problem_.cluster.ranks;
  if (problem_.cluster.node_names.size() > 1 && rank_links_may_bind(problem_)) return;
  for (Rank rank = 1; rank < ranks(); ++rank) {
    const RankSpec &a = specs[at(rank - 1)], &b = specs[at(rank)];
    if (a.node != b.node || !alike(a, b)) continue;
    for (int k = 0; k < ranks(); ++k) {
      Terms terms = seated(0, rank - 1, 0, k);
      append(terms, seated(0, rank, 0, k), -1);
      mip_.at_least(0, std::move(terms));
    }
  }
}

void WorkColumns::give_all_work() {
  for (Rank rank = 0; rank < ranks(); ++rank) {
    Terms works;
    for (const Deal& deal : deals_)
      for (const Place& place : deal.places) works.push_back({place[at(rank)]});
    mip_.at_least(1, std::move(works));
  }
}

void WorkColumns::choose_recompute() {
  again_.resize(at(layers()));
  if (!problem_.space.recompute) return;
  for (LayerId layer = 0; layer < layers(); ++layer)
    for (const int backward : place(Work::backward_input, layer)) {
      const int again = mip_.add({.whole = true});
      mip_.at_least(0, {{backward, 1}, {again, -1}});
      again_[at(layer)].push_back(again);
    }
}

void WorkColumns::mark_used() {
  std::vector<bool> comes_later(at(layers()), false);
  for (const auto& [first, second] : order()) comes_later[at(second)] = true;
  for (int k = 0; k < ranks(); ++k) {
    used_.push_back(mip_.add({}));
    for (const ByLayer& before : before_)
      for (LayerId layer = 0; layer < layers(); ++layer)
        if (!comes_later[at(layer)]) mip_.one_where(used_.back(), {{{before[at(layer)][at(k)]}}});
  }
}

/// Of a layer's works that are cut together, on the fastest rank.
double WorkColumns::least_compute_s(std::size_t cut, LayerId layer) const {
  const LayerCost& cost = problem_.profile.costs[at(layer)];
  const double weight_s = cost.backward_weight_s + cost.update_s / microbatches_per_update(problem_.pricing);
  const std::pair<Work, double> works[] = {{Work::forward, cost.forward_s},
                                           {Work::backward_input, cost.backward_input_s},
                                           {Work::backward_weight, weight_s}};
  // Dealt apart, the works of one cut may lie on different ranks.
  double seconds = 0;
  for (const auto& [work, work_s] : works) {
    if (deals_[deal_of(work)].cut != cut) continue;
    seconds = problem_.space.free_backward ? std::max(seconds, work_s) : seconds + work_s;
  }
  double speed = 0;
  for (const RankSpec& rank : problem_.cluster.ranks) speed = std::max(speed, rank.speed);
  return seconds / speed;
}

void WorkColumns::forbid_long_intervals(double longest_s) {
  if (problem_.space.ideals) return;
  for (std::size_t cut = 0; cut < before_.size(); ++cut) {
    LayerId first = 0;
    double seconds = 0;  // of [first, last]
    for (LayerId last = 0; last < layers(); ++last) {
      seconds += least_compute_s(cut, last);
      if (seconds <= longest_s) continue;
      while (seconds - least_compute_s(cut, first) > longest_s) seconds -= least_compute_s(cut, first++);
      // `last` at a position <= k has `first` at one <= k - 1.
      for (int k = 0; k < ranks(); ++k) {
        Terms terms{{before_[cut][at(last)][at(k)], -1}};
        if (k > 0) terms.push_back({before_[cut][at(first)][at(k - 1)], 1});
        mip_.at_least(0, std::move(terms));
      }
    }
  }
}

std::vector<Terms> WorkColumns::stands_by(Rank rank, int k) const {
  std::vector<Terms> sums;
  for (std::size_t seating = 0; seating < seats_.size(); ++seating) sums.push_back(seated(seating, rank, 0, k));
  return sums;
}

int WorkColumns::position(std::size_t cut, LayerId layer, const std::vector<double>& values) const {
  int k = 0;
  while (!is_one(values[at(before_[cut][at(layer)][at(k)])])) ++k;
  return k;
}

std::vector<Stage> WorkColumns::stages(const std::vector<double>& values) const {
  std::map<std::tuple<Work, int, Rank>, std::vector<LayerId>> layers_of;  // by work, position and rank
  std::set<int> positions;
  const auto add = [&](Work work, LayerId layer, std::size_t cut, const Place& place) {
    for (Rank rank = 0; rank < std::ssize(place); ++rank)
      if (is_one(values[at(place[at(rank)])])) {
        const int k = position(cut, layer, values);
        positions.insert(k);
        layers_of[{work, k, rank}].push_back(layer);
      }
  };
  const std::vector<Work> works = works_of(problem_.space.cuts);
  for (LayerId layer = 0; layer < layers(); ++layer) {
    for (const Work work : works) add(work, layer, deals_[deal_of(work)].cut, place(work, layer));
    add(Work::recompute, layer, deals_[deal_of(Work::backward_input)].cut, recompute(layer));
  }
  std::vector<Stage> stages;
  for (const auto& [key, layers] : layers_of) {
    const auto& [work, k, rank] = key;
    const auto index = std::distance(positions.begin(), positions.find(k));
    stages.push_back({work, static_cast<int>(index), layers, {rank}});
  }
  return stages;
}

void WorkColumns::exclude(const std::vector<double>& values) {
  Terms terms;
  double ones = 0;
  for (int column = 0; column < std::ssize(mip_.columns); ++column) {
    if (!mip_.columns[at(column)].whole) continue;
    const bool one = is_one(values[at(column)]);
    ones += one ? 1 : 0;
    terms.push_back({column, one ? -1.0 : 1.0});
  }
  mip_.at_least(1 - ones, std::move(terms));
}

}  // namespace sluice
