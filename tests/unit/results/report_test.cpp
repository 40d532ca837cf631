#include "results/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "results/figures.h"
#include "results/picture.h"
#include "results/restarts.h"
#include "results/text_table.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// Two ranks, two forward stages and their backwards, one micro-batch: 0F0 1F0 1B0 0B0 and an update of rank 0.
RunResults sample_run() {
  RunResults results;
  RunHeader& header = results.header;
  header.plan = sample_plan();
  header.plan.cluster = uniform_cluster(2, 1, {}, {});
  header.plan.microbatches = 1;
  header.plan.stages = {{Work::forward, 0, {0}, {0}},
                        {Work::forward, 1, {1, 2}, {1}},
                        {Work::backward, 1, {1, 2}, {1}},
                        {Work::backward, 0, {0}, {0}}};
  header.plan.programs = {
      {"step",
       {{{Op::forward, 0, kNone, 0}, {Op::backward, 3, kNone, 0}, {Op::optimizer_step, 3, kNone, kNone}},
        {{Op::forward, 1, kNone, 0}, {Op::backward, 2, kNone, 0}}}}};
  header.predicted.ranks.resize(2);
  header.predicted.ranks[0] = {
      {{0, 10 * kMs}, {60 * kMs, 80 * kMs}, {80 * kMs, 100 * kMs}}, {0, 700}, {0, 300}, 1 << 20};
  header.predicted.ranks[1] = {{{10 * kMs, 30 * kMs}, {30 * kMs, 60 * kMs}}, {0, 300}, {0, 700}, 2 << 20};
  header.places = {{"alpha", 2}, {"beta", 2}};
  header.threads = 2;
  results.merged = true;
  for (std::int64_t step = 0; step < 21; ++step) {
    // The first step is ten times slower; the others take 101, 102, ... 120 ms.
    results.tables.steps.push_back({step, step / 7, 3.0F - 0.1F * static_cast<float>(step),
                                    step == 0 ? 1.0 : 0.1 + 1e-3 * static_cast<double>(step)});
    for (const Rank rank : {0, 1}) {
      const std::int64_t compute_ns = rank == 0 ? 30 * kMs : 50 * kMs;
      results.tables.ranks.push_back({step,
                                      rank,
                                      1000 * kMs * step + 5 * rank * kMs,
                                      step == 0 ? 1000 * kMs : 100 * kMs,
                                      compute_ns,
                                      20 * kMs,
                                      0,
                                      kMs,
                                      40 * kMs,
                                      header.predicted.ranks[static_cast<std::size_t>(rank)].sent_bytes,
                                      {},
                                      3 << 20});
    }
  }
  for (const std::int64_t step : {0, 10, 20})
    for (const Rank rank : {0, 1}) {
      int i = 0;
      for (InstructionTime time : header.predicted.ranks[static_cast<std::size_t>(rank)].instructions) {
        if (step == 0) time.end_ns += 500 * kMs;
        if (rank == 0 && i == 0) time.end_ns += kMs;  // 0F0 takes 11 ms
        results.tables.timeline.push_back({step, rank, i++, time});
      }
    }
  results.tables.evaluations = {{7, 0.9, 0.5, 100}, {21, 0.25, 0.875, 200}};
  return results;
}

TEST(Figures, leave_the_first_step_out_of_times) {
  const Figures figures = figures_of(sample_run());
  EXPECT_EQ(figures.steps, 21);
  EXPECT_EQ(figures.epochs, 3);
  EXPECT_DOUBLE_EQ(figures.step_median_s, 0.110);
  EXPECT_DOUBLE_EQ(figures.step_p95_s, 0.119);
  EXPECT_DOUBLE_EQ(figures.images_per_s, 4 / 0.110);
  EXPECT_EQ(figures.first_loss, 3.0F);
  EXPECT_EQ(figures.evaluation->accuracy, 0.875);
}

TEST(Figures, split_the_time_of_each_rank) {
  const Figures figures = figures_of(sample_run());
  ASSERT_EQ(figures.ranks.size(), 2u);
  EXPECT_DOUBLE_EQ(figures.ranks[0].compute, 0.3);
  EXPECT_DOUBLE_EQ(figures.ranks[0].update, 0.2);
  EXPECT_DOUBLE_EQ(figures.ranks[0].communication, 0.01);
  EXPECT_DOUBLE_EQ(figures.ranks[0].wait, 0.4);
  EXPECT_DOUBLE_EQ(figures.ranks[0].bubble, 0.7);
  EXPECT_DOUBLE_EQ(figures.ranks[1].bubble, 0.5);
  EXPECT_DOUBLE_EQ(figures.ranks[1].predicted_bubble, 0.5);
  EXPECT_DOUBLE_EQ(figures.bubble.value(), 0.6);
  EXPECT_DOUBLE_EQ(figures.predicted_bubble, 0.6);
}

/// sample_run(), in which rank 0 also sends conv1's output to rank 1 on another node: 400 B.
RunResults sample_run_with_a_transfer() {
  RunResults run = sample_run();
  Plan& plan = run.header.plan;
  plan.groups = {{.root = 0, .members = {0, 1}}};
  plan.transfers = {{.payload = Payload::activation, .tensor = 2, .group = 0, .bytes = 400}};
  plan.programs[0].ranks[0].push_back({.op = Op::multicast_wait, .transfer = 0, .microbatch = 0});
  run.header.predicted.ranks[0].instructions.push_back({0, 0, {0, 400}});
  for (const std::int64_t step : {0, 10, 20}) run.tables.timeline.push_back({step, 0, 3, {0, 0, {0, 400}}});
  return run;
}

/// A mean of equal counts is that count, though parts of it, rounded one by one, may add up to another: 150528 / 95.
TEST(Figures, compare_bytes_exactly_whatever_the_number_of_recorded_steps) {
  RunResults run = sample_run_with_a_transfer();
  constexpr std::int64_t kBytes = 150528;
  run.header.predicted.ranks[0].instructions[3].sent_bytes = {0, kBytes};
  for (const int steps : {1, 3, 49, 95, 1000}) {
    run.tables.timeline.clear();
    for (std::int64_t step = 0; step < steps; ++step) run.tables.timeline.push_back({step, 0, 3, {0, 0, {0, kBytes}}});
    EXPECT_EQ(figures_of(run).transfers[0].counted_bytes, (std::array{0.0, 1.0 * kBytes})) << steps << " steps";
    EXPECT_EQ(report_text(run).find("differs"), std::string::npos) << steps << " steps";
  }
}

TEST(Figures, compare_the_bytes_of_each_transfer) {
  RunResults run = sample_run_with_a_transfer();
  Figures figures = figures_of(run);
  ASSERT_EQ(figures.transfers.size(), 1u);
  EXPECT_EQ(figures.transfers[0].predicted_bytes, (std::array{0.0, 400.0}));
  EXPECT_EQ(figures.transfers[0].counted_bytes, (std::array{0.0, 400.0}));
  EXPECT_NE(report_text(run).find("equal"), std::string::npos);
  EXPECT_EQ(report_text(run).find("other bytes than predicted"), std::string::npos);

  run.tables.timeline.back().time.sent_bytes = {0, 100};
  figures = figures_of(run);
  EXPECT_DOUBLE_EQ((*figures.transfers[0].counted_bytes)[1], 300);
  EXPECT_NE(report_text(run).find("differs"), std::string::npos);
  EXPECT_NE(report_text(run).find("1 recorded instructions sent other bytes than predicted"), std::string::npos);
}

TEST(Figures, put_predicted_beside_measured_per_stage) {
  const RunResults run = sample_run();
  const Figures figures = figures_of(run);
  ASSERT_EQ(figures.stages.size(), 5u);
  const StageFigures& first = figures.stages[0];
  EXPECT_EQ(first.op, Op::forward);
  EXPECT_EQ(first.layers, "conv1");
  EXPECT_EQ(first.ranks, (std::vector<Rank>{0}));
  EXPECT_DOUBLE_EQ(first.predicted_s, run.header.plan.profile.costs[0].forward_s);
  EXPECT_DOUBLE_EQ(first.measured_s, 0.011);
  EXPECT_EQ(first.samples, 2);
  EXPECT_EQ(figures.stages[1].layers, "drop to loss");
}

TEST(Figures, count_bytes_of_all_senders) {
  RunResults run = sample_run();
  EXPECT_EQ(figures_of(run).traffic[1].predicted_bytes, 1000);
  EXPECT_EQ(figures_of(run).traffic[1].measured_bytes, 1000);
  EXPECT_EQ(figures_of(run).traffic[0].measured_bytes, 0);
  run.tables.ranks[5].sent_bytes[1] += 21;
  EXPECT_EQ(figures_of(run).traffic[1].measured_bytes, 1001);
}

TEST(Figures, flag_what_spoils_the_numbers) {
  RunResults run = sample_run();
  EXPECT_TRUE(figures_of(run).flags.empty());

  run.header.places[1].host = "alpha";
  ASSERT_EQ(figures_of(run).flags.size(), 1u);
  EXPECT_NE(figures_of(run).flags[0].find("2 ranks x 2 threads on its 2 cores"), std::string::npos);

  run = sample_run();
  for (StepRecord& step : run.tables.steps) step.duration_s *= 1.2;
  ASSERT_EQ(figures_of(run).flags.size(), 1u);
  EXPECT_NE(figures_of(run).flags[0].find("than predicted by 32 %"), std::string::npos) << figures_of(run).flags[0];

  run = sample_run();
  run.merged = false;
  run.tables.steps.back().loss = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(figures_of(run).flags.size(), 2u);
}

TEST(Picture, shows_what_runs_at_the_middle_of_each_cell) {
  const RunResults run = sample_run();
  EXPECT_EQ(picture(run.header.predicted, program(run.header.plan, "step"), {}, 10),
            "  rank 0  0.....aaUU\n"
            "  rank 1  .00aaa....\n");
}

TEST(Picture, places_ranks_on_a_common_clock) {
  RunResults run = sample_run();
  EXPECT_TRUE(last_measured_step(run)->shift_ns.empty());
  run.tables.clocks = {{0, 0, 10}, {1, 15 * kMs, 10}};
  EXPECT_EQ(last_measured_step(run)->step, 20);
  EXPECT_EQ(last_measured_step(run)->shift_ns, (std::vector<std::int64_t>{0, 20 * kMs}));
  EXPECT_EQ(picture(run.header.predicted, program(run.header.plan, "step"), {0, 20 * kMs}, 10),
            "  rank 0  0.....aaUU\n"
            "  rank 1  ...00aaa..\n");
}

TEST(Picture, skips_steps_that_some_rank_did_not_record) {
  RunResults run = sample_run();
  run.tables.timeline.pop_back();
  EXPECT_EQ(last_measured_step(run)->step, 10);
}

TEST(Report, names_accuracy_steps_and_flags) {
  RunResults run = sample_run();
  run.header.places[1].host = "alpha";
  const std::string report = report_text(run);
  for (const char* expected : {"test accuracy  87.5 % of 200 images", "110.000 ms median", "forward 0", "conv1",
                               "between nodes", "! alpha is oversubscribed", "step 20 as measured", "+10.0 %"})
    EXPECT_NE(report.find(expected), std::string::npos) << expected << " is missing in\n" << report;
}

TEST(Report, tells_restarts_and_checkpoints_only_where_there_were_any) {
  RunResults run = sample_run();
  run.attempts = {{0, "2026-01-01", "1f1b", 2, "17"}};
  EXPECT_EQ(report_text(run).find("restart"), std::string::npos);
  EXPECT_EQ(report_text(run).find("checkpoint"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(report_json(run)).contains("checkpoints"));
  run.attempts.push_back({8, "2026-01-02", "gpipe", 3, ""});
  const std::string report = report_text(run);
  EXPECT_NE(report.find("  restarts   after steps     started  ranks  schedule  job\n"
                        "  start                0  2026-01-01      2      1f1b   17\n"
                        "  restart 1            8  2026-01-02      3     gpipe    -\n"),
            std::string::npos)
      << report;
  EXPECT_EQ(nlohmann::json::parse(report_json(run))["attempts"][1]["first_step"], 8);
}

TEST(Report, tells_what_checkpoints_cost) {
  RunResults run = sample_run();
  run.tables.steps.resize(2);  // 1 s and 0.101 s
  run.tables.checkpoints = {{7, 0.01, 0.5, 3 << 20, true}, {14, 0.03, 0.9, 0, false}, {21, 0.0151, 0.7, 4 << 20, true}};
  const CheckpointFigures figures = checkpoint_figures(run.tables).value();
  EXPECT_EQ(figures.written, 2);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.last_step, 21);
  EXPECT_EQ(figures.bytes, 3 << 20);
  EXPECT_DOUBLE_EQ(figures.stall_median_s, 0.0151);
  EXPECT_DOUBLE_EQ(figures.stall_total_s, 0.0551);
  EXPECT_DOUBLE_EQ(figures.stall_share, 0.0551 / 1.101);
  EXPECT_DOUBLE_EQ(figures.write_median_s, 0.5);
  const std::string report = report_text(run);
  EXPECT_NE(report.find("the last after 21 steps        2       1  3.0 MiB"), std::string::npos) << report;
  const auto json = nlohmann::json::parse(report_json(run));
  EXPECT_EQ(json["checkpoints"]["failed"], 1);
  run.tables.checkpoints = {{14, 0.03, 0.9, 0, false}};
  EXPECT_NE(report_text(run).find("none was written"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(report_json(run))["checkpoints"]["write_median_s"].is_null());
}

TEST(Report, json_holds_the_same_figures) {
  RunResults run = sample_run();
  run.tables.steps.back().loss = std::numeric_limits<float>::quiet_NaN();
  const auto json = nlohmann::json::parse(report_json(run));
  EXPECT_EQ(json["steps"], 21);
  EXPECT_TRUE(json["last_loss"].is_null());
  EXPECT_EQ(json["stages"].size(), 5u);
  EXPECT_EQ(json["payload_bytes_per_step"]["inter_node"]["measured"], 1000);
  EXPECT_EQ(json["evaluation"]["accuracy"], 0.875);
}

TEST(Report, of_a_run_that_recorded_nothing_says_so) {
  RunResults run = sample_run();
  run.tables = {};
  EXPECT_NE(report_text(run).find("no step was recorded"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(report_json(run))["steps"], 0);
}

TEST(Report, shows_nothing_as_measured_that_no_rank_recorded) {
  RunResults run = sample_run();
  run.tables.ranks.clear();
  run.tables.timeline.clear();
  const std::string report = report_text(run);
  EXPECT_NE(report.find("between nodes                1000         -           -"), std::string::npos) << report;
  EXPECT_NE(report.find("alpha        -       -     -            -     -       -     70.0 %       -    1.0 MiB"),
            std::string::npos)
      << report;
  const auto json = nlohmann::json::parse(report_json(run));
  EXPECT_TRUE(json["bubble"].is_null());
  EXPECT_TRUE(json["payload_bytes_per_step"]["inter_node"]["measured"].is_null());
  EXPECT_TRUE(json["ranks"][0]["peak_memory_bytes"].is_null());
  EXPECT_EQ(json["ranks"][0]["predicted_peak_memory_bytes"], 1 << 20);
}

TEST(Figures, flag_asynchronous_runs_too_short_to_measure) {
  RunResults run = sample_run();
  run.tables.ranks.clear();
  EXPECT_TRUE(figures_of(run).flags.empty());
  run = sample_run();
  Plan& plan = run.header.plan;
  plan.schedule = "pipedream";
  plan.programs[0].name = "steady";
  plan.programs.push_back({"fill", std::vector<std::vector<Instruction>>(2)});
  plan.programs.push_back({"drain", std::vector<std::vector<Instruction>>(2)});
  run.header.predicted.ranks.clear();  // of one run of steady: needs a whole plan
  run.tables.ranks.clear();
  run.tables.timeline.clear();
  const std::string report = report_text(run);
  EXPECT_NE(report.find("! every run of steady was too close to a fill"), std::string::npos) << report;
}

TEST(FormatBytes, takes_the_unit_that_fits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(16 << 10), "16.0 KiB");
  EXPECT_EQ(format_bytes(5 << 19), "2.5 MiB");
}

}  // namespace
}  // namespace sluice
