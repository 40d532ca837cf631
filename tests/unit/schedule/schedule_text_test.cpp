#include "optimizer/schedule/schedule_text.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/error.h"
#include "core/schedule.h"
#include "core/text.h"
#include "core/verifier.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

ScheduleText read(const std::string& lines) {
  std::istringstream stream(lines);
  return read_schedule_text(stream, "mine.txt");
}

/// The plan's layers, cluster and cells, anything else as from a file.
Plan rebuilt(const Plan& plan, const std::string& lines) {
  const ScheduleText schedule = read(lines);
  std::vector<Stage> layers = plan.stages;
  std::erase_if(layers, [](const Stage& stage) { return stage.work == Work::recompute; });
  for (Stage& stage : layers) stage.owners.clear();
  return build_plan({.profile = plan.profile,
                     .cluster = plan.cluster,
                     .schedule = std::string(kFileSchedule),
                     .microbatches = schedule.microbatches,
                     .stages = stages_of(schedule, layers),
                     .text = &schedule});
}

/// Replicas without a micro-batch have no cells to say so.
bool has_idle_replicas(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [&](const Stage& stage) { return std::ssize(stage.owners) > plan.microbatches; });
}

TEST(ScheduleText, every_schedule_read_back_keeps_its_cells_and_most_often_all_instructions) {
  int tried = 0;
  for (const Schedule& schedule : schedules())
    for (int workers = 1; workers <= 4; ++workers)
      for (const int microbatches : {1, 2, 3, 4, 8}) {
        SCOPED_TRACE(text(schedule.name, ", K=", workers, ", M=", microbatches));
        std::optional<Plan> plan;
        try {
          plan = examples::textbook_plan(std::string(schedule.name), workers, microbatches);
        } catch (const Error&) {
          continue;  // what the schedule lacks
        }
        if (has_idle_replicas(*plan)) continue;
        if (schedule.asynchronous) {
          EXPECT_THROW((void)read(schedule_text(*plan)), Error);
          continue;
        }
        ++tried;
        const Plan again = rebuilt(*plan, schedule_text(*plan));
        // Cells do not say how far a line may run ahead (zb-h1), nor that weights are fetched (cooperative).
        if (!schedule.delays_weights && schedule.placement != Placement::cooperative) {
          EXPECT_EQ(program(again, "step"), program(*plan, "step"));
          EXPECT_EQ(program(again, "evaluate"), program(*plan, "evaluate"));
        }
        EXPECT_FALSE(verify(again));
        EXPECT_EQ(schedule_text(again).substr(schedule_text(again).find('\n')),
                  schedule_text(*plan).substr(schedule_text(*plan).find('\n')));
      }
  EXPECT_GT(tried, 40);
}

TEST(ScheduleText, random_plans_read_back_verify_and_keep_their_cells) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    const Plan plan = examples::random_plan(seed);
    const bool part_recomputed = std::any_of(plan.stages.begin(), plan.stages.end(),
                                             [&](const Stage& stage) { return stage.work == Work::recompute; });
    if (part_recomputed || has_idle_replicas(plan)) continue;  // what a text does not say
    const Plan again = rebuilt(plan, schedule_text(plan));
    const auto defect = verify(again);
    EXPECT_FALSE(defect) << to_string(*defect);
    EXPECT_EQ(schedule_text(again).substr(schedule_text(again).find('\n')),
              schedule_text(plan).substr(schedule_text(plan).find('\n')));
  }
}

TEST(ScheduleText, recomputes_whole_backward_stages) {
  const Plan plan = examples::textbook_plan("1f1b", 2, 2);
  const Plan again = rebuilt(plan, "rank 0 | 0F0 0F1 0R0 0B0 0R1 0B1 U0\nrank 1 | 1F0 1B0 1F1 1B1 U1\n");
  EXPECT_FALSE(verify(again));
  EXPECT_EQ(again.stages.size(), 5u);
}

TEST(ScheduleText, owners_follow_from_the_cells) {
  // Two replicas of position 0, whose backward sits elsewhere.
  const Plan plan = examples::textbook_plan("gpipe", 2, 2);
  Plan wider = plan;
  wider.cluster = uniform_cluster(1, 3, {}, {});
  const Plan again = rebuilt(wider,
                             "rank 0 | 0F0   # even ones\n"
                             "rank 1 | 0F1 1F0 1F1 1B0 1B1 U1\n"
                             "rank 2 | 0B0 0B1 U0\n");
  EXPECT_FALSE(verify(again));
  EXPECT_EQ(again.stages[0].owners, (std::vector<Rank>{0, 1}));
  EXPECT_EQ(again.stages[2].owners, (std::vector<Rank>{2}));
}

struct Refusal {
  const char* lines;
  const char* part_of_message;
};

class ScheduleTextRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(ScheduleTextRefusal, names_file_rank_and_cell) {
  const Plan plan = examples::textbook_plan("1f1b", 2, 2);
  try {
    (void)rebuilt(plan, GetParam().lines);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find("mine.txt"), 0u) << message;
    EXPECT_NE(message.find(GetParam().part_of_message), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, ScheduleTextRefusal,
    testing::Values(
        Refusal{"", "has no cells"}, Refusal{"rank 1 | 0F0\n", "does not begin with 'rank 0 |'"},
        Refusal{"rank 0 | 0F0 0X1\n", "rank 0, cell 2 (0X1): is no cell"},
        Refusal{"rank 0 | 0F0 0F-1\n", "rank 0, cell 2 (0F-1): is no cell"},
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1 U0\nrank 1 | 1F0 1B0 1B1 U1\n", "1F1 is missing"},
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1 U0\nrank 1 | 1F0 1B0 1F1 1F0 1B1 U1\n",
                "rank 1, cell 4 (1F0): stands already"},
        Refusal{"rank 0 | 0F0 0F1 0B1 0B0 U0\nrank 1 | 1F0 1B0 1F1 1B1 U1\n", "rank 0, cell 4 (0B0): comes after"},
        Refusal{"rank 0 | 0F0 0F1 0B0 U0\nrank 1 | 1F0 1B0 1F1 1B1 U1 0B1\n", "rank 1, cell 5 (U1): expected 0B1"},
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1 U0\nrank 1 | 1F0 1B0 1F1 1B1 U1 2F0 2F1\n",
                "(2F0): the cuts give its position"},
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1 U0\nrank 1 | 1F0 1F1\n", "has no cell of backward at position 1"},
        Refusal{"rank 0 | 0F0 0B0 0F1 0B1 U0\nrank 1 | 1F0 1F1 1B0 1B1 U1\n",
                "rank 0, cell 2 (0B0): waits for ever for 1B0, cell 3 of rank 1, which waits at cell 2"},
        // Rank 0 merely waits for rank 1, whose line is wrong.
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1 U0\nrank 1 | 1B0 1F0 1F1 1B1 U1\n",
                "rank 1, cell 1 (1B0): waits for ever for 1F0, cell 2 of rank 1: move"},
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1\nrank 1 | 1F0 1B0 1F1 1B1 U1\n", "rank 0: U0 is missing"},
        Refusal{"rank 0 | 0F0 0F1 0B0 U0 0B1\nrank 1 | 1F0 1B0 1F1 1B1 U1\n", "rank 0, cell 4 (U0): expected 0B1"},
        Refusal{"rank 0 | 0F0 0F1 0B0 0B1 U0\nrank 1 | 1F0 1B0 1F1 1B1 U1 U1\n", "rank 1, cell 6 (U1)"},
        Refusal{"rank 0 | 0F0 0F1 0R0 0R1 0B0 0B1 U0\nrank 1 | 1F0 1B0 1F1 1B1 U1\n", "(0R1): expected 0B0"}));

TEST(ScheduleText, replicas_take_turns) {
  Plan plan = examples::textbook_plan("gpipe", 2, 3);
  try {
    (void)rebuilt(plan, "rank 0 | 0F0 0F1 1B0 1B1 1B2 U1\nrank 1 | 0F2 1F0 1F1 1F2 0B0 0B1 0B2 U0\n");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1, cell 1 (0F2): belongs to rank 0"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace sluice
