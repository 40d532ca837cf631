#include "optimizer/schedule/schedule_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <istream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "optimizer/schedule/linear_order.h"

namespace sluice {
namespace {

using Cell = ScheduleText::Cell;

constexpr std::string_view kLetters = "FBIWR";
constexpr std::array kWorks{Work::forward, Work::backward, Work::backward_input, Work::backward_weight,
                            Work::recompute};

Work work_of(Op op) {
  return *std::find_if(kWorks.begin(), kWorks.end(), [&](Work work) { return op_of(work) == op; });
}

std::string shown(const Cell& cell) {
  if (cell.op == Op::optimizer_step) return text("U", cell.position);
  const auto work = std::find(kWorks.begin(), kWorks.end(), work_of(cell.op)) - kWorks.begin();
  return text(cell.position, kLetters[static_cast<std::size_t>(work)], cell.microbatch);
}

Error wrong(const ScheduleText& schedule, Rank rank, int index, const std::string& word, const std::string& why) {
  return bad_input(text(schedule.source, ", rank ", rank, ", cell ", index + 1, " (", word, "): ", why));
}
Error wrong(const ScheduleText& schedule, Rank rank, int index, const std::string& why) {
  return wrong(schedule, rank, index, shown(schedule.ranks[at(rank)][at(index)]), why);
}

// --- Reading ------------------------------------------------------------

constexpr int kLargest = 1'000'000;  // position or micro-batch

/// Takes a number off the front of a word.
std::optional<int> take_number(std::string_view& word) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || number < 0 || number > kLargest) return std::nullopt;
  word.remove_prefix(static_cast<std::size_t>(end - word.data()));
  return number;
}

/// "2F0" or "U2".
std::optional<Cell> cell_of(std::string_view word) {
  if (word.starts_with('U')) {
    word.remove_prefix(1);
    const auto position = take_number(word);
    if (!position || !word.empty()) return std::nullopt;
    return Cell{Op::optimizer_step, *position, kNone};
  }
  const auto position = take_number(word);
  const auto letter = word.empty() ? std::string_view::npos : kLetters.find(word.front());
  if (!position || letter == std::string_view::npos) return std::nullopt;
  word.remove_prefix(1);
  const auto microbatch = take_number(word);
  if (!microbatch || !word.empty()) return std::nullopt;
  return Cell{op_of(kWorks[letter]), *position, *microbatch};
}

/// A cell with a version: "0F3v2".
bool is_asynchronous(const std::string& word) {
  const auto version = word.find('v');
  return version != std::string::npos && cell_of(word.substr(0, version));
}

void read_rank(std::istream& words, ScheduleText& schedule) {
  const auto rank = static_cast<Rank>(schedule.ranks.size());
  schedule.ranks.emplace_back();
  int index = 0;
  for (std::string word; words >> word; ++index) {
    if (is_asynchronous(word))
      throw infeasible(text(schedule.source,
                            " is of an asynchronous schedule, which cannot be read from text: name it ",
                            "with --schedule"));
    const auto cell = cell_of(word);
    if (!cell) throw wrong(schedule, rank, index, word, "is no cell: expected one like 2F0, 2B0, 2I0, 2W0, 2R0 or U2");
    schedule.ranks.back().push_back(*cell);
    schedule.positions = std::max(schedule.positions, cell->position + 1);
    schedule.microbatches = std::max(schedule.microbatches, cell->microbatch + 1);
  }
}

// --- Owners -------------------------------------------------------------

/// Who runs what: by work and position, the rank of each micro-batch.
class Owners {
 public:
  explicit Owners(const ScheduleText& schedule) : schedule_(schedule) {
    for (Rank rank = 0; rank < std::ssize(schedule.ranks); ++rank)
      for (int i = 0; i < std::ssize(schedule.ranks[at(rank)]); ++i) add(rank, i);
    for (const auto& [work, cells] : cells_) check(cells);
  }

  /// Empty where the text has no such cell.
  [[nodiscard]] std::vector<Rank> of(Work work, int position) const {
    const auto found = cells_.find({work, position});
    if (found == cells_.end()) return {};
    std::vector<Rank> owners;
    for (int m = 0; m < replicas(found->second); ++m) owners.push_back(found->second[at(m)].rank);
    return owners;
  }

  /// @throws Error (bad input) for a cell of a work and position that are not among the stages
  void require_all(const std::vector<Stage>& stages) const {
    for (const auto& [key, cells] : cells_) {
      const auto [work, position] = key;
      if (std::none_of(stages.begin(), stages.end(),
                       [&, w = work, k = position](const Stage& stage) { return stage.work == w && stage.index == k; }))
        throw wrong(schedule_, cells[0].rank, cells[0].index, "the cuts give its position no layers");
    }
  }

 private:
  struct Place {
    Rank rank = kNone;
    int index = 0;
  };
  using Cells = std::vector<Place>;  // by micro-batch

  void add(Rank rank, int index) {
    const Cell& cell = schedule_.ranks[at(rank)][at(index)];
    if (cell.op == Op::optimizer_step) return;
    Cells& cells = cells_[{work_of(cell.op), cell.position}];
    cells.resize(at(schedule_.microbatches));
    Place& place = cells[at(cell.microbatch)];
    if (place.rank != kNone)
      throw wrong(schedule_, rank, index, text("stands already at rank ", place.rank, ", cell ", place.index + 1));
    for (int later = cell.microbatch + 1; later < schedule_.microbatches; ++later)
      if (cells[at(later)].rank == rank)
        throw wrong(schedule_, rank, index,
                    text("comes after micro-batch ", later, ": a rank's micro-batches of a stage ascend"));
    place = {rank, index};
  }

  /// Complete, and replicas take turns.
  void check(const Cells& cells) const {
    const auto known = std::find_if(cells.begin(), cells.end(), [](const Place& place) { return place.rank != kNone; });
    for (int m = 0; m < std::ssize(cells); ++m)
      if (cells[at(m)].rank == kNone) {
        Cell missing = schedule_.ranks[at(known->rank)][at(known->index)];
        missing.microbatch = m;
        throw bad_input(text(schedule_.source, ": ", shown(missing), " is missing"));
      }
    const int owners = replicas(cells);
    for (int m = owners; m < std::ssize(cells); ++m)
      if (const auto [rank, index] = cells[at(m)]; rank != cells[at(m % owners)].rank)
        throw wrong(schedule_, rank, index,
                    text("belongs to rank ", cells[at(m % owners)].rank, ": of ", owners, " replicas, the one with ",
                         "micro-batch ", m % owners, " has it"));
  }

  static int replicas(const Cells& cells) {
    std::set<Rank> ranks;
    for (const Place& place : cells) ranks.insert(place.rank);
    return static_cast<int>(ranks.size());
  }

  const ScheduleText& schedule_;
  std::map<std::pair<Work, int>, Cells> cells_;
};

// --- Order --------------------------------------------------------------

/// Nobody is kept from running ahead, but by the lines.
std::vector<Position> without_windows(const Plan& plan) {
  std::vector<Position> positions = step_positions(plan);
  for (Position& position : positions) position.backward_delay = position.weight_delay = plan.microbatches;
  return positions;
}

/// Runs the lines against each other, each cell after what its micro-batch needs.
class Merge {
 public:
  Merge(const ScheduleText& schedule, const Plan& plan)
      : schedule_(schedule),
        plan_(plan),
        positions_(without_windows(plan)),
        before_(stages_before(plan, positions_)),
        done_(plan.stages.size(), std::vector<bool>(at(plan.microbatches))),
        next_(schedule.ranks.size(), 0),
        write_(plan, positions_) {}

  Figure run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < std::ssize(next_); ++rank)
        for (; is_ready(rank); moved = true) execute(rank);
    }
    for (Rank rank = 0; rank < std::ssize(next_); ++rank)
      if (next_[at(rank)] < std::ssize(schedule_.ranks[at(rank)])) throw circle_from(rank);
    write_.updates();
    return write_.take();
  }

 private:
  [[nodiscard]] int stage_of(const Cell& cell) const {
    const Position& position = positions_[at(cell.position)];
    switch (cell.op) {
      case Op::forward:
        return position.forward;
      case Op::recompute:
        return position.recompute;
      case Op::backward_weight:
        return position.backward_weight;
      default:
        return position.backward;
    }
  }

  /// Of a rank that is stuck: what it waits for is on a rank that is stuck too, if not the same, until one comes twice.
  /// That one is to blame; the first may merely wait for it.
  [[nodiscard]] Error circle_from(Rank rank) const {
    for (std::set<Rank> seen; seen.insert(rank).second;) rank = waited_for(rank).second;
    const auto [cell, there] = waited_for(rank);
    const std::vector<Cell>& line = schedule_.ranks[at(there)];
    const auto place = std::find(line.begin(), line.end(), cell) - line.begin();
    return wrong(schedule_, rank, next_[at(rank)],
                 text("waits for ever for ", shown(cell), ", cell ", place + 1, " of rank ", there,
                      there == rank ? "" : text(", which waits at cell ", next_[at(there)] + 1), ": move it before"));
  }

  [[nodiscard]] std::pair<Cell, Rank> waited_for(Rank rank) const {
    const Cell& cell = schedule_.ranks[at(rank)][at(next_[at(rank)])];
    const Stage& before = plan_.stages[at(before_[at(stage_of(cell))])];
    return {{op_of(before.work), before.index, cell.microbatch}, owner(before, cell.microbatch)};
  }

  [[nodiscard]] bool is_ready(Rank rank) const {
    if (next_[at(rank)] == std::ssize(schedule_.ranks[at(rank)])) return false;
    const Cell& cell = schedule_.ranks[at(rank)][at(next_[at(rank)])];
    if (cell.op == Op::optimizer_step) return true;
    const int before = before_[at(stage_of(cell))];
    return before == kNone || done_[at(before)][at(cell.microbatch)];
  }

  void execute(Rank rank) {
    const Cell& cell = schedule_.ranks[at(rank)][at(next_[at(rank)]++)];
    if (cell.op == Op::optimizer_step) return;
    done_[at(stage_of(cell))][at(cell.microbatch)] = true;
    if (cell.op == Op::forward) write_.forward(cell.position, cell.microbatch);
    if (cell.op == Op::backward || cell.op == Op::backward_input) write_.backward(cell.position, cell.microbatch);
    if (cell.op == Op::backward_weight) write_.backward_weight(cell.position, cell.microbatch);
  }

  const ScheduleText& schedule_;
  const Plan& plan_;
  const std::vector<Position> positions_;
  const std::vector<int> before_;        // by stage
  std::vector<std::vector<bool>> done_;  // by stage and micro-batch
  std::vector<int> next_;                // by rank
  FigureWriter write_;
};

Cell cell_of(const Plan& plan, const Instruction& instruction) {
  return {instruction.op, plan.stages[at(instruction.stage)].index, instruction.microbatch};
}

/// The writer puts recomputes and updates where they belong; the text must have had them there.
void require_same(const ScheduleText& schedule, const Plan& plan, const Figure& figure) {
  for (Rank rank = 0; rank < std::ssize(schedule.ranks); ++rank) {
    const std::vector<Cell>& line = schedule.ranks[at(rank)];
    const std::vector<Instruction>& list = figure.ranks[at(rank)];
    for (int i = 0; i < std::max(std::ssize(line), std::ssize(list)); ++i) {
      if (i >= std::ssize(list))
        throw wrong(schedule, rank, i, "updates what the rank does not run backward, or twice");
      const Cell expected = cell_of(plan, list[at(i)]);
      if (i >= std::ssize(line))
        throw bad_input(text(schedule.source, ", rank ", rank, ": ", shown(expected), " is missing at the end"));
      if (line[at(i)] != expected) throw wrong(schedule, rank, i, text("expected ", shown(expected), " here"));
    }
  }
}

void add_program(std::ostringstream& lines, const Plan& plan, const Program& program) {
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    lines << "rank " << rank << " |";
    for (const Instruction& instruction : program.ranks[rank])
      if (is_compute(instruction.op) || instruction.op == Op::optimizer_step) lines << ' ' << cell(plan, instruction);
    lines << '\n';
  }
}

}  // namespace

std::string schedule_text(const Plan& plan) {
  int positions = 0;
  for (const Stage& stage : plan.stages) positions = std::max(positions, stage.index + 1);
  std::ostringstream lines;
  lines << "# " << plan.schedule << ", " << positions << " positions, " << plan.microbatches << " micro-batches\n"
        << "# 2F0: forward of position 2, micro-batch 0; B backward, or its halves I and W; R recompute; U2 update\n";
  for (const Program& program : plan.programs) {
    if (program.name == "evaluate") continue;
    if (asynchronous(plan)) lines << "# " << program.name << '\n';
    add_program(lines, plan, program);
  }
  return lines.str();
}

ScheduleText read_schedule_text(std::istream& lines, const std::string& source) {
  ScheduleText schedule{.source = source, .ranks = {}};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string rank, number, bar;
    if (!(words >> rank)) continue;
    words >> number >> bar;
    if (rank != "rank" || number != text(schedule.ranks.size()) || bar != "|")
      throw bad_input(text(source, ": '", line.substr(0, 40), "' does not begin with 'rank ", schedule.ranks.size(),
                           " |': expected one line a rank, from rank 0 on"));
    read_rank(words, schedule);
  }
  if (schedule.microbatches == 0)
    throw bad_input(text(source, " has no cells: expected lines like 'rank 0 | 0F0 0B0 U0'"));
  return schedule;
}

std::vector<Stage> stages_of(const ScheduleText& schedule, const std::vector<Stage>& layers) {
  const Owners owners(schedule);
  std::vector<Stage> stages;
  const auto add = [&](const Stage& like, Work work) {
    stages.push_back({.work = work, .index = like.index, .layers = like.layers, .owners = owners.of(work, like.index)});
    return !stages.back().owners.empty();
  };
  for (const Stage& stage : layers) {
    const bool halved = stage.work == Work::backward && !owners.of(Work::backward_input, stage.index).empty();
    const bool found =
        halved ? add(stage, Work::backward_input) && add(stage, Work::backward_weight) : add(stage, stage.work);
    if (!found)
      throw bad_input(text(schedule.source, " has no cell of ", to_string(stages.back().work), " at position ",
                           stage.index, ", which has layers: give the cuts that it was made for"));
    const bool recomputes = stage.work == Work::backward || stage.work == Work::backward_input;
    if (recomputes && !owners.of(Work::recompute, stage.index).empty()) add(stage, Work::recompute);
  }
  owners.require_all(stages);
  return stages;
}

Figure figure_of(const ScheduleText& schedule, const Plan& plan) {
  if (schedule.ranks.size() > plan.cluster.ranks.size())
    throw infeasible(text(schedule.source, " is for ", schedule.ranks.size(), " ranks, but the cluster has ",
                          plan.cluster.ranks.size()));
  Figure figure = Merge(schedule, plan).run();
  require_same(schedule, plan, figure);
  return figure;
}

}  // namespace sluice
