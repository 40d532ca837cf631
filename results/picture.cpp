#include "results/picture.h"

#include <algorithm>
#include <map>

#include "core/asynchronous.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

char symbol(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::forward:
      return static_cast<char>('0' + instruction.microbatch % 10);
    case Op::backward:
    case Op::backward_input:
      return static_cast<char>('a' + instruction.microbatch % 26);
    case Op::backward_weight:
      return 'W';
    case Op::recompute:
      return 'R';
    case Op::optimizer_step:
      return 'U';
    case Op::multicast_wait:
    case Op::all_reduce_wait:
      return '.';
    default:
      return '=';
  }
}

/// One line: cell c shows the instruction that runs at its middle.
std::string line(const RankTimeline& rank, const std::vector<Instruction>& list, std::int64_t shift_ns,
                 std::int64_t length_ns, int columns) {
  std::string cells(at(columns), '.');
  for (std::size_t i = 0; i < list.size(); ++i) {
    const InstructionTime& time = rank.instructions[i];
    const auto cell = [&](std::int64_t at_ns) {
      // The first cell whose middle is not before the time.
      const double position = static_cast<double>(at_ns + shift_ns) / static_cast<double>(length_ns) * columns + 0.5;
      return static_cast<std::size_t>(std::clamp(position, 0.0, static_cast<double>(columns)));
    };
    for (std::size_t c = cell(time.start_ns); c < cell(time.end_ns); ++c) cells[c] = symbol(list[i]);
  }
  return cells;
}

std::vector<std::int64_t> shifts(const RunResults& results, std::int64_t step, std::size_t ranks) {
  std::map<Rank, std::int64_t> offset_ns, start_ns;
  for (const ClockOffset& clock : results.tables.clocks) offset_ns[clock.rank] = clock.offset_ns;
  for (const RankStep& row : results.tables.ranks)
    if (row.step == step) start_ns[row.rank] = row.start_ns;
  if (offset_ns.size() != ranks || start_ns.size() != ranks) return {};
  std::vector<std::int64_t> begins;
  for (const auto& [rank, start] : start_ns) begins.push_back(start + offset_ns[rank]);
  const std::int64_t first = *std::min_element(begins.begin(), begins.end());
  for (std::int64_t& begin : begins) begin -= first;
  return begins;
}

}  // namespace

std::string picture(const Timeline& timeline, const Program& program, const std::vector<std::int64_t>& shift_ns,
                    int columns) {
  const auto shift = [&](std::size_t rank) { return shift_ns.empty() ? 0 : shift_ns[rank]; };
  std::int64_t length_ns = 1;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    for (const InstructionTime& time : timeline.ranks[rank].instructions)
      length_ns = std::max(length_ns, time.end_ns + shift(rank));
  std::string lines;
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
    lines += text("  rank ", rank, rank < 10 ? "  " : " ",
                  line(timeline.ranks[rank], program.ranks[rank], shift(rank), length_ns, columns), "\n");
  return lines;
}

std::optional<MeasuredStep> last_measured_step(const RunResults& results) {
  std::map<std::int64_t, Timeline> steps;
  const std::size_t ranks = results.header.plan.cluster.ranks.size();
  for (const InstructionRecord& row : results.tables.timeline) {
    Timeline& timeline = steps[row.step];
    timeline.ranks.resize(ranks);
    timeline.ranks[at(row.rank)].instructions.push_back(row.time);
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const Program& list = training_program(results.header.plan);
    const bool whole = std::equal(list.ranks.begin(), list.ranks.end(), step->second.ranks.begin(),
                                  [](auto& a, auto& b) { return a.size() == b.instructions.size(); });
    if (whole) return MeasuredStep{step->first, step->second, shifts(results, step->first, ranks)};
  }
  return std::nullopt;
}

}  // namespace sluice
