#include <algorithm>
#include <array>

#include "core/worker_cost.h"
#include "optimizer/solver/ilp/loads.h"

namespace sluice {
namespace {

using Holdings = WorkerLoad::Holdings;

/// What a rank holds of each kind, as sums of columns: WorkerTally's count_layer() and
/// count_tensor() with conditions on columns in place of counts. How many micro-batches of each kind
/// it holds is asked of WorkerCost::memory_bytes().
class MemoryRows {
 public:
  MemoryRows(Mip& mip, const WorkColumns& works, const Problem& problem, Rank rank)
      : mip_(mip),
        works_(works),
        problem_(problem),
        rank_(rank),
        cost_(problem.profile, problem.cluster, problem.pricing),
        unit_(static_cast<double>(problem.cluster.ranks[at(rank)].memory_bytes) / 1000) {}

  void run() {
    const Model& model = problem_.profile.model;
    const auto consumers = consumers_by_tensor(model);
    look_for_strays_and_forwards();
    for (LayerId layer = 0; layer < works_.layers(); ++layer) hold_layer(layer);
    hold_largest_workspace();
    for (TensorId tensor = 0; tensor < std::ssize(model.tensors); ++tensor) {
      hold_activation(tensor, consumers[at(tensor)]);
      if (has_gradient(model, tensor)) hold_gradient(tensor, consumers[at(tensor)]);
    }
    for (auto& [kind, sum] : held_) sum.column = total(sum.terms);
    for (int k = 0; k < works_.ranks(); ++k) {
      const int gradients = gradients_from(works_.ranks() - 1 - k);
      for (int first = 0; first <= k; ++first) limit(k, first, gradients);
    }
  }

 private:
  /// Bytes of one kind, in units.
  struct Held {
    std::int64_t Holdings::*kind;
    struct Sum {
      Terms terms;
      int column = kNone;
    } sum;
  };

  Held::Sum& held(std::int64_t Holdings::*kind) {
    return std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.kind == kind; })->sum;
  }
  void hold(std::int64_t Holdings::*kind, int column, std::int64_t bytes) {
    if (bytes > 0) held(kind).terms.push_back({column, static_cast<double>(bytes) / unit_});
  }

  [[nodiscard]] Terms here(Work work, LayerId layer) const { return {{works_.place(work, layer)[at(rank_)]}}; }
  [[nodiscard]] Terms made_again(LayerId layer) const {
    if (layer == kDataset || works_.recompute(layer).empty()) return {};
    return {{works_.recompute(layer)[at(rank_)]}};
  }
  int condition() { return mip_.add({}); }
  static Terms just(int column) { return {{column}}; }

  void look_for_strays_and_forwards() {
    strays_ = condition();
    no_forward_ = condition();
    Terms forwards{{no_forward_}};
    for (LayerId layer = 0; layer < works_.layers(); ++layer) {
      append(forwards, here(Work::forward, layer));
      if (works_.three())
        mip_.one_where(strays_, {here(Work::backward_weight, layer)}, {here(Work::backward_input, layer)});
    }
    mip_.at_least(1, std::move(forwards));
  }

  void hold_layer(LayerId layer) {
    const LayerCost& cost = problem_.profile.costs[at(layer)];
    const int any = condition();
    for (const Work work : {Work::forward, Work::backward_input, Work::backward_weight})
      mip_.one_where(any, {here(work, layer)});
    const int versions = versions_of_weights(problem_.pricing, static_cast<int>(problem_.cluster.ranks.size()));
    hold(&Holdings::always, any, versions * (cost.parameter_bytes + cost.packed_bytes));
    hold(&Holdings::always, here(Work::backward_weight, layer).front().column, 2 * cost.parameter_bytes);
    any_work_.push_back(any);
  }

  void hold_largest_workspace() {
    workspace_ = mip_.add({.upper = kUnbounded});
    scratch_ = mip_.add({.upper = kUnbounded});
    append(held(&Holdings::always).terms, {{workspace_, 1}, {scratch_, 2}});
    for (LayerId layer = 0; layer < works_.layers(); ++layer) {
      const double units = static_cast<double>(problem_.profile.costs[at(layer)].workspace_bytes) / unit_;
      if (units > 0) mip_.at_least(0, {{workspace_, 1}, {any_work_[at(layer)], -units}});
      largest_workspace_ = std::max(largest_workspace_, units);
    }
  }

  void hold_activation(TensorId tensor, const std::vector<LayerId>& consumers) {
    const Tensor& t = problem_.profile.model.tensors[at(tensor)];
    const bool from_layer = t.producer != kDataset;
    const Terms made = from_layer ? here(Work::forward, t.producer) : Terms{};
    const Terms again = made_again(t.producer);
    const int arrives = condition(), stashed = condition(), stashed_leaving = condition(), stays = condition();
    const int leaves = condition(), leaving = condition(), once = condition(), late = condition();

    const auto read_at_once = [&](const Terms& reader) {
      if (from_layer) mip_.one_where(arrives, {reader}, {made});
      mip_.one_where(once, {reader}, {just(arrives), just(stashed), just(leaving), again});
    };
    const auto read_again = [&](const Terms& reader) {
      if (from_layer) mip_.one_where(arrives, {reader}, {made, again});
      mip_.one_where(stashed, {reader}, {just(arrives), again});
    };
    const auto leave_for = [&](const Terms& reader) {
      if (from_layer) mip_.one_where(leaves, {made}, {reader});
    };
    for (const LayerId layer : consumers) {
      read_at_once(here(Work::forward, layer));
      leave_for(here(Work::forward, layer));
      // A reader whose backward is elsewhere may be made again there.
      if (has_gradient(problem_.profile.model, tensor)) leave_for(here(Work::backward_input, layer));
      if (!made_again(layer).empty()) read_again(made_again(layer));
    }
    if (from_layer) read_at_once(made);
    for_each_stash_reader(tensor, [&](Work work, LayerId layer) {
      read_again(here(work, layer));
      leave_for(here(work, layer));
      if (is_late(work)) mip_.one_where(late, {here(work, layer)});
    });
    mip_.one_where(stashed_leaving, {just(stashed), just(leaves)});
    mip_.one_where(stays, {just(stashed)}, {just(stashed_leaving)});
    mip_.one_where(leaving, {just(leaves)}, {just(arrives), just(stashed), again});

    hold(&Holdings::arriving, arrives, t.bytes);
    hold_until(just(late), &Holdings::stashed, stays, t.bytes);
    hold_until(just(late), &Holdings::stashed_leaving, stashed_leaving, t.bytes);
    hold(&Holdings::leaving, leaving, t.bytes);
    hold(&Holdings::always, once, t.bytes);
    if (again.empty()) return;
    const int first_copy = condition();
    mip_.one_where(first_copy, {just(leaves), again}, {just(arrives)});
    hold(&Holdings::always, first_copy, t.bytes);
    hold_until(just(late), &Holdings::always, again.front().column, t.bytes);
  }

  void hold_gradient(TensorId tensor, const std::vector<LayerId>& consumers) {
    const Tensor& t = problem_.profile.model.tensors[at(tensor)];
    const Terms wanted = here(Work::backward_input, t.producer);
    const Terms wanted_last = here(Work::backward_weight, t.producer);
    const Terms late = works_.three() ? wanted_last : Terms{};
    const int elsewhere = condition(), leaves = condition(), stays = condition();
    most_summands_ = std::max(most_summands_, static_cast<int>(consumers.size()));
    for (const LayerId layer : consumers) {
      const Terms summand = here(Work::backward_input, layer);
      const int partial = condition();
      for (const Terms& wants : {wanted, wanted_last}) {
        mip_.one_where(partial, {wants}, {summand});
        mip_.one_where(leaves, {summand}, {wants});
        hold_scratch(summand, wants, static_cast<double>(t.bytes) / unit_);
      }
      if (!late.empty()) mip_.one_where(stays, {summand, late}, {just(leaves)});
      const int in_time = hold_until_ahead(late, partial, t.bytes);
      mip_.one_where(elsewhere, {just(in_time)});
      hold(&Holdings::partial_gradients, in_time, t.bytes);
    }
    hold(&Holdings::gradients, elsewhere, t.bytes);
    hold_until(late, &Holdings::leaving, leaves, t.bytes);
    if (!late.empty()) hold_until(late, &Holdings::always, stays, t.bytes);
  }

  /// Holds what column `held` says, as if it arrived where the late backward-weight that needs it may have to wait.
  void hold_until(const Terms& late, std::int64_t Holdings::*kind, int held, std::int64_t bytes) {
    if (!works_.three()) return hold(kind, held, bytes);
    const int waits = condition(), in_time = condition();
    mip_.one_where(waits, {just(held), late, just(strays_)});
    mip_.one_where(in_time, {just(held)}, {just(waits)});
    hold(&Holdings::arriving, waits, bytes);
    hold(kind, in_time, bytes);
  }

  /// Likewise of a partial gradient, which also counts as arriving where no forward holds up those that send.
  /// @return  the column of those that do not
  int hold_until_ahead(const Terms& late, int partial, std::int64_t bytes) {
    const int waits = condition(), in_time = condition();
    mip_.one_where(waits, {just(partial), just(no_forward_)});
    if (!late.empty()) mip_.one_where(waits, {just(partial), late, just(strays_)});
    mip_.one_where(in_time, {just(partial)}, {just(waits)});
    hold(&Holdings::arriving, waits, bytes);
    return in_time;
  }

  /// Of the largest gradient that stays inside the worker.
  void hold_scratch(const Terms& summand, const Terms& wanted, double units) {
    Terms terms{{scratch_, 1}};
    append(terms, summand, -units);
    append(terms, wanted, -units);
    mip_.at_least(-units, std::move(terms));
    largest_scratch_ = std::max(largest_scratch_, units);
  }

  [[nodiscard]] bool is_late(Work work) const { return works_.three() && work == Work::backward_weight; }

  template <typename Visit>
  void for_each_stash_reader(TensorId tensor, const Visit& visit) const {
    for (LayerId layer = 0; layer < works_.layers(); ++layer) {
      const LayerNeeds& needs = problem_.profile.model.needs[at(layer)];
      const auto reads = [&](const auto& tensors) {
        return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
      };
      if (reads(needs.backward_input)) visit(Work::backward_input, layer);
      if (reads(needs.backward_weight)) visit(Work::backward_weight, layer);
    }
  }

  /// A column for a sum.
  int total(const Terms& terms) {
    const int column = mip_.add({.upper = kUnbounded});
    Terms row{{column, 1}};
    append(row, terms, -1);
    mip_.at_least(0, std::move(row));
    return column;
  }

  [[nodiscard]] double most(const Terms& terms) const {
    double sum = 0;
    for (const Term& term : terms)
      sum += term.column == workspace_ ? largest_workspace_
             : term.column == scratch_ ? 2 * largest_scratch_
                                       : term.coefficient;
    return sum;
  }

  /// Micro-batches of a kind that a worker at position k holds if the first worker stands at position `first`.
  [[nodiscard]] double depth(std::int64_t Holdings::*kind, int k, int first) const {
    WorkerLoad load;
    load.holdings.*kind = 1;
    if (kind == &Holdings::partial_gradients) load.holdings.gradients = 1;
    const Seat seat{.replicas = 1, .ranks_from_here = works_.ranks() - k, .ranks = works_.ranks() - first};
    return static_cast<double>(cost_.memory_bytes(load, seat));
  }

  /// A column for what arrives of gradients if there are so many later workers:
  /// partial sums of each tensor that has some, from no more workers than there are.
  int gradients_from(int later_workers) {
    const Held::Sum &each = held(&Holdings::gradients), &all = held(&Holdings::partial_gradients);
    if (later_workers <= 1) return each.column;
    if (later_workers >= most_summands_) return all.column;
    const int fewer = mip_.add({.upper = kUnbounded}), by_workers = mip_.add({.whole = true});
    const double most_units = later_workers * most(each.terms);
    mip_.at_least(-most_units,
                  {{fewer, 1}, {each.column, -static_cast<double>(later_workers)}, {by_workers, -most_units}});
    mip_.at_least(0, {{fewer, 1}, {all.column, -1}, {by_workers, most(all.terms)}});
    return fewer;
  }

  /// The memory that this rank needs at position k or an earlier one, if some worker stands at `first` or earlier.
  void limit(int k, int first, int gradients) {
    Terms terms;
    double most_units = 0;
    for (const Held& h : held_) {
      const double count = h.kind == &Holdings::gradients ? 0 : depth(h.kind, k, first);
      if (count == 0) continue;
      terms.push_back({h.kind == &Holdings::partial_gradients ? gradients : h.sum.column, count});
      most_units += count * most(h.sum.terms);
    }
    constexpr double kCapacity = 1000;  // in units
    if (most_units <= kCapacity) return;
    const double excess = most_units - kCapacity;
    append(terms, works_.used_by(first), excess);
    for (const Terms& stands : works_.stands_by(rank_, k)) {
      Terms row = terms;
      append(row, stands, excess);
      mip_.at_most(kCapacity + 2 * excess, std::move(row));
    }
  }

  Mip& mip_;
  const WorkColumns& works_;
  const Problem& problem_;
  const Rank rank_;
  const WorkerCost cost_;
  const double unit_;  ///< bytes
  std::vector<Held> held_{{&Holdings::always, {}},           {&Holdings::stashed, {}}, {&Holdings::stashed_leaving, {}},
                          {&Holdings::arriving, {}},         {&Holdings::leaving, {}}, {&Holdings::gradients, {}},
                          {&Holdings::partial_gradients, {}}};
  std::vector<int> any_work_;  ///< by layer
  int strays_ = kNone;         ///< 1 where a layer has its backward-weight here and its backward-input elsewhere
  int no_forward_ = kNone;     ///< 1 where no layer has its forward here
  int workspace_ = kNone, scratch_ = kNone;
  int most_summands_ = 0;
  double largest_workspace_ = 0, largest_scratch_ = 0;  ///< units
};

}  // namespace

void limit_memory(Mip& mip, const WorkColumns& works, const Problem& problem) {
  for (Rank rank = 0; rank < works.ranks(); ++rank)
    if (problem.cluster.ranks[at(rank)].memory_bytes != kUnlimitedMemory) MemoryRows(mip, works, problem, rank).run();
}

}  // namespace sluice
