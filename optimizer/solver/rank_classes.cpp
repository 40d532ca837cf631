#include "optimizer/solver/rank_classes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

namespace {

using Classes = std::map<std::tuple<double, std::int64_t, bool>, std::vector<Rank>, std::greater<>>;

Classes classes_of(const Cluster& cluster, const std::vector<Rank>& ranks) {
  Classes classes;
  for (const Rank rank : ranks) {
    const RankSpec& spec = cluster.ranks[at(rank)];
    classes[{spec.speed, spec.memory_bytes, spec.host}].push_back(rank);
  }
  return classes;
}

/// kMostCrews + 1 if there are more than that.
std::int64_t crews_of(const Classes& classes) {
  std::int64_t crews = 1;
  for (const auto& [key, members] : classes)
    crews = std::min<std::int64_t>(crews * (std::ssize(members) + 1), RankClasses::kMostCrews + 1);
  return crews;
}

}  // namespace

bool RankClasses::can_count(const Cluster& cluster, const std::vector<Rank>& ranks) {
  return crews_of(classes_of(cluster, ranks)) <= kMostCrews;
}

RankClasses::RankClasses(const Cluster& cluster, const std::vector<Rank>& ranks) {
  const Classes classes = classes_of(cluster, ranks);
  const std::int64_t crews = crews_of(classes);
  if (crews > kMostCrews)
    throw infeasible(text(
        "the cluster's ranks differ in speed or memory in more ways than the dynamic program can count (more than ",
        kMostCrews, " choices of ranks): use --method ilp"));
  strongest_ = {0, 0, 0};
  for (const auto& [key, members] : classes) {
    specs_.push_back(cluster.ranks[at(members[0])]);
    strongest_.speed = std::max(strongest_.speed, specs_.back().speed);
    strongest_.memory_bytes = std::max(strongest_.memory_bytes, specs_.back().memory_bytes);
    members_.push_back(members);
  }
  for (int crew = 0; crew < crews; ++crew) {
    int rest = crew;
    total_.push_back(0);
    speed_.push_back(0);
    for (int c = 0; c < this->classes(); ++c) {
      const int radix = static_cast<int>(members_[at(c)].size()) + 1;
      count_.push_back(rest % radix);
      total_.back() += count_.back();
      speed_.back() += count_.back() * specs_[at(c)].speed;
      rest /= radix;
    }
  }
}

bool RankClasses::is_within(int crew, int other) const {
  for (int c = 0; c < classes(); ++c)
    if (ranks_in(crew, c) > ranks_in(other, c)) return false;
  return true;
}

bool RankClasses::is_pure(int crew) const {
  for (int c = 0; c < classes(); ++c)
    if (ranks_in(crew, c) > 0) return ranks_in(crew, c) == ranks_in(crew);
  return true;
}

RankSpec RankClasses::weakest(int crew) const {
  RankSpec weakest = strongest_;
  for (int c = 0; c < classes(); ++c) {
    if (ranks_in(crew, c) == 0) continue;
    weakest.speed = std::min(weakest.speed, spec(c).speed);
    weakest.memory_bytes = std::min(weakest.memory_bytes, spec(c).memory_bytes);
  }
  return weakest;
}

std::vector<std::vector<Rank>> RankClasses::deal(const std::vector<int>& crews) const {
  std::vector<std::vector<Rank>> dealt;
  std::vector<int> used(members_.size());
  for (const int crew : crews) {
    std::vector<Rank>& ranks = dealt.emplace_back();
    for (int c = 0; c < classes(); ++c)
      for (int i = 0; i < ranks_in(crew, c); ++i) ranks.push_back(members_[at(c)][at(used[at(c)]++)]);
  }
  return dealt;
}

}  // namespace sluice
