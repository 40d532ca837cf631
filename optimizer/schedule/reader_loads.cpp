#include "optimizer/schedule/reader_loads.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/index.h"
#include "core/liveness.h"

namespace sluice {
namespace {

using Number = int;  // in the linear order
using Numbered = std::pair<Number, Instruction>;

Op load_of(TensorKind kind) { return kind == TensorKind::input ? Op::load_input : Op::load_labels; }

/// All loads, ascending by the number in front of which each belongs.
std::vector<Numbered> needed_loads(const Plan& plan, const EndlessFigure& figure) {
  const DataFlow flow(plan);
  std::map<std::pair<int, TensorKind>, Number> needs;  // by micro-batch and kind
  for (Rank rank = 0; rank < std::ssize(figure.ranks); ++rank) {
    const std::vector<Instruction>& list = figure.ranks[at(rank)];
    for (int i = 0; i < std::ssize(list); ++i)
      for (const ValueUse& use : flow.access(list[at(i)], rank).reads) {
        const Tensor& tensor = plan.profile.model.tensors[at(use.value.tensor)];
        if (tensor.producer != kDataset) continue;
        const Number before = figure.order[at(rank)][at(rank == plan.data_reader ? i : std::max(0, i - 1))];
        Number& first = needs.try_emplace({use.microbatch, tensor.kind}, before).first->second;
        first = std::min(first, before);
      }
  }
  std::vector<Numbered> loads;
  for (const auto& [load, before] : needs)
    loads.emplace_back(before, Instruction{.op = load_of(load.second), .microbatch = load.first});
  std::stable_sort(loads.begin(), loads.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return loads;
}

/// Numbers everything anew, so that each load has one of its own.
void renumber(EndlessFigure& figure, std::vector<Numbered>& loads) {
  for (std::vector<Number>& order : figure.order) {
    auto next = loads.begin();
    for (Number& number : order) {
      while (next != loads.end() && next->first <= number) ++next;
      number += static_cast<int>(next - loads.begin());
    }
  }
  for (int i = 0; i < std::ssize(loads); ++i) loads[at(i)].first += i;
}

/// By the index of a period's first instruction: its number in the order.
std::vector<Number> period_numbers(const EndlessFigure& figure, Rank rank) {
  std::vector<Number> numbers;
  for (const int index : figure.periods[at(rank)]) numbers.push_back(figure.order[at(rank)][at(index)]);
  return numbers;
}

/// The reader's periods, or, if it has no stage, those of a rank that has.
std::vector<Number> periods_of_reader(const EndlessFigure& figure, Rank reader) {
  const auto has_periods = [](const std::vector<int>& periods) { return !periods.empty(); };
  if (!figure.periods[at(reader)].empty()) return period_numbers(figure, reader);
  const auto other = std::find_if(figure.periods.begin(), figure.periods.end(), has_periods);
  return period_numbers(figure, static_cast<Rank>(other - figure.periods.begin()));
}

}  // namespace

void insert_loads(const Plan& plan, EndlessFigure& figure) {
  if (plan.data_reader == kNone) return;
  std::vector<Numbered> loads = needed_loads(plan, figure);
  if (loads.empty()) return;
  renumber(figure, loads);
  std::vector<Instruction>& list = figure.ranks[at(plan.data_reader)];
  std::vector<Number>& order = figure.order[at(plan.data_reader)];
  std::vector<Number> periods;
  if (!figure.periods.empty()) periods = periods_of_reader(figure, plan.data_reader);

  for (int i = 0; i < std::ssize(list); ++i) loads.emplace_back(order[at(i)], list[at(i)]);
  std::sort(loads.begin(), loads.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  list.clear();
  order.clear();
  for (const auto& [number, instruction] : loads) {
    list.push_back(instruction);
    order.push_back(number);
  }
  if (figure.periods.empty()) return;
  std::vector<int>& begins = figure.periods[at(plan.data_reader)];
  begins.clear();
  for (const Number number : periods)
    begins.push_back(static_cast<int>(std::lower_bound(order.begin(), order.end(), number) - order.begin()));
}

}  // namespace sluice
