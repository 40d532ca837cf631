#include "core/timeline.h"

#include <algorithm>

namespace sluice {

std::int64_t makespan_ns(const Timeline& timeline) {
  std::int64_t last = 0;
  for (const RankTimeline& rank : timeline.ranks)
    for (const InstructionTime& time : rank.instructions) last = std::max(last, time.end_ns);
  return last;
}

double bubble_fraction(const Timeline& timeline, const Program& program) {
  std::int64_t compute_ns = 0;
  int computing_ranks = 0;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    bool computes = false;
    for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
      if (!is_compute(program.ranks[rank][i].op)) continue;
      computes = true;
      compute_ns += timeline.ranks[rank].instructions[i].end_ns - timeline.ranks[rank].instructions[i].start_ns;
    }
    computing_ranks += computes ? 1 : 0;
  }
  const double available = static_cast<double>(makespan_ns(timeline)) * computing_ranks;
  return available > 0 ? 1 - static_cast<double>(compute_ns) / available : 0;
}

}  // namespace sluice
