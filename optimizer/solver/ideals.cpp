#include "optimizer/solver/ideals.h"

#include <algorithm>
#include <random>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
IdealLattice::IdealLattice(const WorkGraph& graph, std::int64_t most)
    : graph_(&graph),
      predecessors_(graph.units.size()),
      most_(most),
      words_(graph.units.size() / kBits + 1),
      members_(words_),
      table_(1024, kNone),
      scratch_(words_) {
  const int units = static_cast<int>(graph.units.size());
  std::mt19937_64 keys;  // hashes only: any fixed keys do
  Word hash = 0;
  for (int unit = 0; unit < units; ++unit) {
    members_[at(unit / kBits)] |= Word{1} << (unit % kBits);
    hash ^= key_.emplace_back(keys());
    for (const int successor : graph.successors[at(unit)]) predecessors_[at(successor)].push_back(unit);
  }
  hash_.push_back(hash);
  size_.push_back(units);
  origin_.emplace_back();
  steps_of_.emplace_back();
  table_[place_of(members(kFull), hash)] = kFull;
}

bool IdealLattice::holds(int ideal, int unit) const {
  return (members(ideal)[unit / kBits] >> (unit % kBits) & 1) != 0;
}

std::span<const IdealLattice::Step> IdealLattice::below(int ideal) {
  if (steps_of_[at(ideal)].count == kNone) find_steps(ideal);
  const Steps& steps = steps_of_[at(ideal)];
  return {steps_.data() + steps.first, at(steps.count)};
}

/// The maximal units are those of the ideal above it that are still there, and
/// predecessors of the unit by which the two differ.
void IdealLattice::find_steps(int ideal) {
  std::vector<int> maximal;
  const Origin origin = origin_[at(ideal)];
  if (origin.above == kNone) {
    for (int unit = 0; unit < std::ssize(graph_->units); ++unit)
      if (is_maximal(ideal, unit)) maximal.push_back(unit);
  } else {
    for (const Step& step : below(origin.above))
      if (step.unit != origin.unit) maximal.push_back(step.unit);
    for (const int unit : predecessors_[at(origin.unit)])
      if (is_maximal(ideal, unit) && std::find(maximal.begin(), maximal.end(), unit) == maximal.end())
        maximal.push_back(unit);
  }
  std::vector<Step> steps;
  for (const int unit : maximal) steps.push_back({unit, without(ideal, unit)});
  steps_of_[at(ideal)] = {std::ssize(steps_), static_cast<int>(steps.size())};
  steps_.insert(steps_.end(), steps.begin(), steps.end());
}

bool IdealLattice::is_maximal(int ideal, int unit) const {
  const std::vector<int>& successors = graph_->successors[at(unit)];
  return std::none_of(successors.begin(), successors.end(), [&](int successor) { return holds(ideal, successor); });
}

int IdealLattice::without(int ideal, int unit) {
  std::copy_n(members(ideal), words_, scratch_.begin());
  scratch_[at(unit / kBits)] &= ~(Word{1} << (unit % kBits));
  const Word hash = hash_[at(ideal)] ^ key_[at(unit)];
  const std::size_t place = place_of(scratch_.data(), hash);
  if (table_[place] != kNone) return table_[place];
  if (count() >= most_)
    throw infeasible(
        text("the model's graph has more than ", most_, " ideals: use intervals of its order (--stages intervals)"));
  const int id = count();
  table_[place] = id;
  members_.insert(members_.end(), scratch_.begin(), scratch_.end());
  hash_.push_back(hash);
  size_.push_back(size_[at(ideal)] - 1);
  origin_.push_back({ideal, unit});
  steps_of_.emplace_back();
  if (2 * size_.size() > table_.size()) enlarge_table();
  return id;
}

std::size_t IdealLattice::place_of(const Word* members, Word hash) const {
  std::size_t place = hash & (table_.size() - 1);
  for (; table_[place] != kNone; place = (place + 1) & (table_.size() - 1)) {
    const int known = table_[place];
    if (hash_[at(known)] == hash && std::equal(members, members + words_, this->members(known))) break;
  }
  return place;
}

void IdealLattice::enlarge_table() {
  table_.assign(2 * table_.size(), kNone);
  for (int ideal = 0; ideal < count(); ++ideal) table_[place_of(members(ideal), hash_[at(ideal)])] = ideal;
}

}  // namespace sluice
