#include "core/prediction.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/asynchronous.h"
#include "core/division.h"
#include "core/index.h"
#include "core/simulator.h"

namespace sluice {
namespace {

Prediction predict_synchronous(const Plan& plan) {
  Prediction prediction;
  prediction.timeline = simulate(plan);
  prediction.step_s = static_cast<double>(makespan_ns(prediction.timeline)) * 1e-9;
  prediction.bubble = bubble_fraction(prediction.timeline, program(plan, "step"));
  return prediction;
}

/// One run of steady out of a longer timeline, which holds `runs` of them more than `shorter`.
RankTimeline one_run(const RankTimeline& longer, const RankTimeline& shorter, int runs, std::size_t first,
                     std::size_t count) {
  RankTimeline run;
  const auto begin = longer.instructions.begin() + static_cast<std::ptrdiff_t>(first);
  run.instructions.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  for (std::size_t kind = 0; kind < run.sent_bytes.size(); ++kind) {
    run.sent_bytes[kind] = (longer.sent_bytes[kind] - shorter.sent_bytes[kind]) / runs;
    run.received_bytes[kind] = (longer.received_bytes[kind] - shorter.received_bytes[kind]) / runs;
  }
  run.peak_memory_bytes = longer.peak_memory_bytes;
  return run;
}

/// When a rank is done with the first part of what it did.
std::int64_t end_of(const RankTimeline& timeline, const std::vector<Instruction>& part) {
  return part.empty() ? 0 : timeline.instructions[part.size() - 1].end_ns;
}

void start_clock(Timeline& timeline) {
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  for (const RankTimeline& rank : timeline.ranks)
    if (!rank.instructions.empty()) begin_ns = std::min(begin_ns, rank.instructions.front().start_ns);
  for (RankTimeline& rank : timeline.ranks)
    for (InstructionTime& time : rank.instructions) {
      time.start_ns -= begin_ns;
      time.end_ns -= begin_ns;
    }
}

Prediction predict_asynchronous(const Plan& plan) {
  std::set<int> positions;
  for (const Stage& stage : plan.stages) positions.insert(stage.index);
  const int in_flight = static_cast<int>(positions.size());
  const int few = std::max(divided_up(2 * in_flight, plan.microbatches), steadies_to_settle(plan) + 1);
  const int more = divided_up(in_flight, plan.microbatches);
  const Timeline shorter = simulate(plan, unrolled(plan, few)), longer = simulate(plan, unrolled(plan, few + more));

  Prediction prediction;
  const Program before = unrolled_without_drain(plan, few - 1), first = unrolled_without_drain(plan, few),
                last = unrolled_without_drain(plan, few + more);
  const Program& steady = program(plan, "steady");
  double computing_s = 0;
  int computing_ranks = 0;
  for (std::size_t rank = 0; rank < steady.ranks.size(); ++rank) {
    prediction.timeline.ranks.push_back(
        one_run(longer.ranks[rank], shorter.ranks[rank], more, before.ranks[rank].size(), steady.ranks[rank].size()));
    const std::int64_t runs_ns =
        end_of(longer.ranks[rank], last.ranks[rank]) - end_of(longer.ranks[rank], first.ranks[rank]);
    prediction.step_s = std::max(prediction.step_s, static_cast<double>(runs_ns) * 1e-9 / more);
    const std::int64_t own_ns = compute_ns(prediction.timeline.ranks[rank], steady.ranks[rank]);
    computing_s += static_cast<double>(own_ns) * 1e-9;
    computing_ranks += steady.ranks[rank].empty() ? 0 : 1;
  }
  const double available_s = prediction.step_s * computing_ranks;
  prediction.bubble = available_s > 0 ? 1 - computing_s / available_s : 0;
  start_clock(prediction.timeline);
  return prediction;
}

}  // namespace

Prediction predict_step(const Plan& plan) {
  return asynchronous(plan) ? predict_asynchronous(plan) : predict_synchronous(plan);
}

}  // namespace sluice
