#include "core/timeline.h"

#include <algorithm>

namespace sluice {

std::int64_t compute_ns(const RankTimeline& timeline, const std::vector<Instruction>& list) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (is_compute(list[i].op)) sum += timeline.instructions[i].end_ns - timeline.instructions[i].start_ns;
  return sum;
}

std::int64_t makespan_ns(const Timeline& timeline) {
  std::int64_t last = 0;
  for (const RankTimeline& rank : timeline.ranks)
    for (const InstructionTime& time : rank.instructions) last = std::max(last, time.end_ns);
  return last;
}

double bubble_fraction(const Timeline& timeline, const Program& program) {
  std::int64_t computing_ns = 0;
  int computing_ranks = 0;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const std::vector<Instruction>& list = program.ranks[rank];
    computing_ns += compute_ns(timeline.ranks[rank], list);
    if (std::any_of(list.begin(), list.end(), [](const Instruction& i) { return is_compute(i.op); })) ++computing_ranks;
  }
  const double available = static_cast<double>(makespan_ns(timeline)) * computing_ranks;
  return available > 0 ? 1 - static_cast<double>(computing_ns) / available : 0;
}

}  // namespace sluice
