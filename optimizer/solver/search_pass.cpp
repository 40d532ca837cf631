#include "optimizer/solver/search_pass.h"

#include <algorithm>
#include <bit>

#include "core/index.h"

namespace sluice {

RecomputedPrices::Price RecomputedPrices::of(const WorkerWalk& walk, int below, int above, const Seat& seat,
                                             const RankSpec& rank) {
  const std::array<std::int64_t, 7> key{below,
                                        above,
                                        seat.replicas,
                                        seat.ranks_from_here,
                                        seat.ranks,
                                        std::bit_cast<std::int64_t>(rank.speed),
                                        rank.memory_bytes};
  const auto [place, is_new] = known_.try_emplace(key);
  if (is_new) {
    const std::vector<LayerWork> works = walk.works_between(below, above);
    for (const LayerWork& work : works) tally_.add(work);
    const Recomputation found = objective_->recomputed(tally_, seat, rank);
    for (const LayerWork& work : works) tally_.remove(work);
    place->second = {found.price, found.lower_bound};
  }
  return place->second;
}

SearchPass::SearchPass(SearchSetting& setting, double limit, int charged)
    : setting_(setting),
      limit_(limit),
      seat_{0, setting.scope.ranks_behind, setting.scope.ranks_before + charged + setting.scope.ranks_behind},
      least_(setting.ranks.classes() == 1 && !setting.space.exactly),
      by_size_(at(setting.walk.units_in(setting.walk.full())) + 1),
      missed_none_below_(limit) {
  const RankClasses& ranks = setting.ranks;
  for (int crew = 0; crew <= ranks.all(); ++crew) {
    const int replicas = ranks.ranks_in(crew);
    if (replicas > 0 && replicas <= setting.space.most_replicas) crews_.push_back(crew);
    const WorkerObjective& objective = setting.objective;
    capacity_s_.push_back(crew == 0 ? 0 : objective.capacity_s(replicas, limit) * ranks.speed(crew) / replicas);
    capacities_s_.push_back(crew == 0 ? 0 : objective.capacity_s(1, limit) * ranks.speed(crew));
  }
  std::stable_sort(crews_.begin(), crews_.end(), [&](int a, int b) { return ranks.ranks_in(a) < ranks.ranks_in(b); });
}

int SearchPass::run() {
  WorkerWalk& walk = setting_.walk;
  reach(walk.full(), {});
  for (auto ideals = by_size_.rbegin(); ideals + 1 != by_size_.rend(); ++ideals)
    for (const int ideal : *ideals) {
      above_ = ideal;
      find_windows(ideal);
      if (!windows_.empty()) walk.visit_below(ideal, windows_, *this);
      timed_out_ = timed_out_ || walk.is_exhausted();
      if (timed_out_) return 0;
    }
  const int best = best_complete();
  return best == kNone ? 0 : setting_.ranks.ranks_in(states_[at(best)].used);
}

namespace {

/// Windows that touch become one; in ascending order afterwards.
void unite(std::vector<ComputeWindow>& windows) {
  std::sort(windows.begin(), windows.end(), [](const auto& a, const auto& b) { return a.least_s < b.least_s; });
  std::size_t united = 0;
  for (const ComputeWindow window : windows)
    if (united > 0 && window.least_s <= windows[united - 1].limit_s)
      windows[united - 1].limit_s = std::max(windows[united - 1].limit_s, window.limit_s);
    else
      windows[united++] = window;
  windows.resize(united);
}

}  // namespace

/// A worker computes no more than its crew can, and no less than leaves what the other ranks can.
void SearchPass::find_windows(int above) {
  const RankClasses& ranks = setting_.ranks;
  const double all_s = above_s_ = setting_.walk.compute_s(above);
  crossing_ = setting_.walk.crossing(above);
  windows_.clear();
  std::size_t unite_at = 1 << 16;  // now and then, lest they fill the memory: states times crews are many
  for (int behind = first_state(above); behind != kNone; behind = states_[at(behind)].next) {
    const int left = ranks.all() - states_[at(behind)].used;
    for (const int crew : crews_) {
      if (is_out_of_time()) return windows_.clear();
      if (!ranks.is_within(crew, left)) continue;
      const double others_s = capacities_s_[at(left - crew)] * kRounding;
      const ComputeWindow window{all_s * kSafely - others_s, capacity_s_[at(crew)] * kRounding};
      if (window.least_s >= window.limit_s) continue;
      windows_.push_back(window);
      if (windows_.size() < unite_at) continue;
      unite(windows_);
      unite_at += windows_.size();
    }
  }
  unite(windows_);
}

/// With equal ranks, only if the ranks that the worker needs at least are fewer than do for the ideal already.
bool SearchPass::wants(int ideal, double worker_s) {
  if (!least_) return true;
  const auto enough = std::upper_bound(capacity_s_.begin() + 1, capacity_s_.end(), worker_s / kRounding);
  int replicas = static_cast<int>(enough - capacity_s_.begin());
  const int behind = states_[at(first_state(above_))].used;
  const int known = first_state(ideal);
  const int most = std::min({setting_.space.most_replicas, setting_.ranks.all() - behind,
                             known == kNone ? setting_.ranks.all() : states_[at(known)].used - behind - 1});
  if (replicas > most || !can_finish(ideal, above_s_ - worker_s, behind + replicas)) return false;
  replicas = setting_.objective.replicas_to_exchange(setting_.walk.crossing(ideal), crossing_, replicas, most,
                                                     limit_ * kRounding);
  return replicas <= most && can_finish(ideal, above_s_ - worker_s, behind + replicas);
}

bool SearchPass::visit(int ideal, const WorkerLoad& load) {
  const SearchSetting& s = setting_;
  if (is_out_of_time() || s.objective.floor(load, s.space.most_replicas, s.ranks.strongest()) >= limit_) return false;
  for (int behind = first_state(above_); behind != kNone; behind = states_[at(behind)].next)
    least_ ? use_least(ideal, load, behind) : use_any(ideal, load, behind);
  return true;
}

void SearchPass::use_least(int ideal, const WorkerLoad& load, int behind) {
  const int used = states_[at(behind)].used;
  const int most = std::min(setting_.space.most_replicas, setting_.ranks.all() - used);
  const Seat seat{0, seat_.ranks_from_here + used, seat_.ranks};
  const int replicas = setting_.space.recompute
                           ? least_recomputing(ideal, load, used, most)
                           : setting_.objective.least_replicas(load, seat, most, setting_.ranks.spec(0), limit_);
  if (replicas > 0 && can_finish(ideal, above_s_ - load.compute_s, used + replicas))
    reach(ideal, {used + replicas, replicas, above_, behind, kNone});
}

void SearchPass::use_any(int ideal, const WorkerLoad& load, int behind) {
  const RankClasses& ranks = setting_.ranks;
  const int used = states_[at(behind)].used;
  accepted_.clear();
  const auto needless = [&](int crew) {
    return std::any_of(accepted_.begin(), accepted_.end(), [&](int less) { return makes_needless(less, crew); });
  };
  for (const int crew : crews_) {
    if (is_out_of_time()) return;
    if (!ranks.is_within(used, ranks.all() - crew)) continue;
    if (!can_finish(ideal, above_s_ - load.compute_s, used + crew) || needless(crew) ||
        !affordable(ideal, load, crew, used))
      continue;
    accepted_.push_back(crew);
    reach(ideal, {used + crew, crew, above_, behind, kNone});
  }
}

int SearchPass::least_recomputing(int ideal, const WorkerLoad& load, int used, int most) {
  for (int replicas = 1; replicas <= most; ++replicas)
    if (load.compute_s < capacity_s_[at(replicas)] * kRounding && affordable(ideal, load, replicas, used))
      return replicas;
  return 0;
}

bool SearchPass::affordable(int ideal, const WorkerLoad& load, int crew, int used_behind) {
  const RankClasses& ranks = setting_.ranks;
  const int replicas = ranks.ranks_in(crew);
  const Seat seat{replicas, seat_.ranks_from_here + ranks.ranks_in(used_behind) + replicas, seat_.ranks};
  const auto dearest = [&](const auto& price_at) {
    double dearest = 0;
    for (int c = 0; c < ranks.classes(); ++c)
      if (ranks.ranks_in(crew, c) > 0) dearest = std::max(dearest, price_at(ranks.spec(c)));
    return dearest;
  };
  const WorkerObjective& objective = setting_.objective;
  if (dearest([&](const RankSpec& rank) { return objective.price(load, seat, rank); }) < limit_) return true;
  if (!setting_.space.recompute) return false;
  const double floor = dearest([&](const RankSpec& rank) { return objective.recomputed_floor(load, seat, rank); });
  if (floor >= limit_) return false;
  const auto [price, lower_bound] = setting_.recomputed.of(setting_.walk, ideal, above_, seat, ranks.weakest(crew));
  // Replicas of several classes recompute what the weakest of each must.
  if (price >= limit_) missed_none_below_ = std::min(missed_none_below_, ranks.is_pure(crew) ? lower_bound : floor);
  return price < limit_;
}

/// Whether the ranks that are left could compute what is left, and exchange what crosses.
bool SearchPass::can_finish(int ideal, double left_s, int used) const {
  const int left = setting_.ranks.all() - used;
  const bool can = left > 0 && left_s <= capacities_s_[at(left)] * kRounding &&
                   setting_.walk.crossing(ideal).together <= limit_ * setting_.ranks.ranks_in(left) * kRounding;
  return can || setting_.walk.units_in(ideal) == 0;
}

/// Whoever can do with the ranks `other` can do with `used`.
bool SearchPass::makes_needless(int used, int other) const {
  return used == other || (!setting_.space.exactly && setting_.ranks.is_within(used, other));
}

void SearchPass::reach(int ideal, const State& state) {
  int* link = &first_state(ideal);
  if (*link == kNone) {
    const int units = setting_.walk.units_in(ideal);
    by_size_[at(units)].push_back(ideal);
    if (units == 0) empty_ = ideal;
  }
  while (*link != kNone) {
    State& known = states_[at(*link)];
    if (makes_needless(known.used, state.used)) return;
    if (makes_needless(state.used, known.used))
      *link = known.next;
    else
      link = &known.next;
  }
  *link = static_cast<int>(states_.size());
  states_.push_back(state);
}

int& SearchPass::first_state(int ideal) {
  if (ideal >= std::ssize(first_state_)) first_state_.resize(at(std::max(ideal + 1, setting_.walk.count())), kNone);
  return first_state_[at(ideal)];
}

/// The state of the empty ideal that uses the fewest ranks, or all of them where that is asked for.
int SearchPass::best_complete() const {
  const RankClasses& ranks = setting_.ranks;
  int best = kNone;
  for (int id = empty_ == kNone ? kNone : first_state_[at(empty_)]; id != kNone; id = states_[at(id)].next) {
    const int used = states_[at(id)].used;
    if (setting_.space.exactly && used != ranks.all()) continue;
    if (best == kNone || ranks.ranks_in(used) < ranks.ranks_in(states_[at(best)].used)) best = id;
  }
  return best;
}

std::vector<SearchPass::Choice> SearchPass::pipeline() const {
  std::vector<Choice> choices;
  int ideal = empty_;
  for (int id = best_complete(); id != kNone && states_[at(id)].above != kNone; id = states_[at(id)].behind) {
    const State& state = states_[at(id)];
    choices.push_back({ideal, state.above, state.crew});
    ideal = state.above;
  }
  return choices;
}

bool SearchPass::is_out_of_time() {
  constexpr int kLooksApart = 4096;
  if (timed_out_ || --until_look_ > 0) return timed_out_;
  until_look_ = kLooksApart;
  timed_out_ = setting_.scope.deadline != kNoDeadline && std::chrono::steady_clock::now() > setting_.scope.deadline;
  return timed_out_;
}

}  // namespace sluice
