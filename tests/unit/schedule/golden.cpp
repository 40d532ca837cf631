#include "tests/unit/schedule/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/asynchronous.h"
#include "core/index.h"
#include "core/simulator.h"
#include "core/text.h"

namespace sluice {
namespace {

bool ranks_have_several_positions(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& other) {
      return stage.work == other.work && stage.index != other.index && owns(stage.owners.front(), other);
    });
  });
}

}  // namespace

std::vector<std::string> golden_rows(const std::string& name, const std::string& size) {
  const std::string path = text("tests/data/schedules/", name, "_", size, ".txt");
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with('#')) rows.push_back(line);
  return rows;
}

std::vector<std::string> drawn(const Plan& plan) { return drawn(plan, program(plan, "step")); }

std::vector<std::string> drawn(const Plan& plan, const Program& program) {
  const Timeline timeline = simulate(plan, program);
  const bool with_position = ranks_have_several_positions(plan);
  const std::size_t width = asynchronous(plan) ? 5 : with_position ? 3 : 2;
  std::vector<std::string> rows;
  for (Rank rank = 0; rank < std::ssize(timeline.ranks); ++rank) {
    std::vector<std::string> cells(static_cast<std::size_t>(makespan_ns(timeline)), ".");
    const std::vector<Instruction>& list = program.ranks[at(rank)];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const InstructionTime& time = timeline.ranks[at(rank)].instructions[i];
      if (is_compute(list[i].op))
        for (std::int64_t t = time.start_ns; t < time.end_ns; ++t)
          cells[static_cast<std::size_t>(t)] = cell(plan, list[i]).substr(with_position ? 0 : 1);
    }
    std::string row = text("rank ", rank, " |");
    for (const std::string& cell : cells) row += ' ' + cell + std::string(width - cell.size(), ' ');
    rows.push_back(row.substr(0, row.find_last_not_of(' ') + 1));
  }
  return rows;
}

}  // namespace sluice
