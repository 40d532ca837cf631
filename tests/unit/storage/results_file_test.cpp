#include "core/storage/results_file.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <fstream>

#include "core/error.h"
#include "core/storage/folder_lock.h"
#include "core/storage/reader.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

RankTimeline sample_timeline(std::size_t instructions, std::int64_t start_ns) {
  RankTimeline timeline;
  for (std::size_t i = 0; i < instructions; ++i, start_ns += 100)
    timeline.instructions.push_back({start_ns, start_ns + 70, {start_ns + 1, start_ns + 2}});
  return timeline;
}

RunHeader sample_header() {
  RunHeader header;
  header.plan = sample_plan();
  header.predicted.ranks = {sample_timeline(4, 0), sample_timeline(2, 50)};
  header.predicted.ranks[0].sent_bytes = {1, 2};
  header.predicted.ranks[1].received_bytes = {3, 4};
  header.predicted.ranks[1].peak_memory_bytes = 5;
  header.places = {{"alpha", 2}, {"beta", 4}};
  header.seed = 7;
  header.threads = 2;
  header.device = "host";
  header.started = "2026-01-01T00:00:00+01:00";
  header.command_line = "sluice-run train --plan plan.h5";
  header.settings = {{"learning_rate", "0.01"}};
  header.job = "17";
  return header;
}

/// As the record of sample_header() lists it.
RunAttempt first_attempt() { return {0, "2026-01-01T00:00:00+01:00", "1f1b", 2, "17"}; }

RankStep sample_rank_step(std::int64_t step, Rank rank) {
  return {step, rank, 1000 * step, 900, 400, 30, 20, 10, 200, {64 + rank, 128}, {256, 512 + step}, 4096};
}

/// Steps [first, last) as ranks 0 and 1 record them, one part per step and rank.
RunTables record(const std::string& path, int attempt, std::int64_t first, std::int64_t last, float loss) {
  RunTables expected;
  std::vector<ResultsWriter> writers{{path, 0, attempt}, {path, 1, attempt}};
  for (std::int64_t step = first; step < last; ++step) {
    expected.steps.push_back({step, step / 2, loss, 0.5});
    writers[0].add(expected.steps.back());
    for (const Rank rank : {0, 1}) {
      ResultsWriter& writer = writers[static_cast<std::size_t>(rank)];
      expected.ranks.push_back(sample_rank_step(step, rank));
      writer.add(expected.ranks.back());
      const RankTimeline timeline = sample_timeline(rank == 0 ? 4 : 2, 10 * step);
      writer.add_timeline(step, timeline);
      for (int i = 0; i < std::ssize(timeline.instructions); ++i)
        expected.timeline.push_back({step, rank, i, timeline.instructions[static_cast<std::size_t>(i)]});
      writer.flush();
    }
  }
  return expected;
}

TEST(Results, returns_every_field_from_parts_and_from_the_merged_file) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  const RunHeader header = sample_header();
  ASSERT_EQ(begin_results(path, header), 0);
  RunTables expected = record(path, 0, 0, 3, 0.1F);
  ResultsWriter last(path, 3);
  expected.evaluations = {{3, 0.25, 0.875, 100}};
  expected.clocks = {{1, -5, 2}};
  expected.checkpoints = {{2, 0.5, 3, 1 << 20, true}, {3, 0.25, 0, 0, false}};
  last.add(expected.evaluations[0]);
  for (const CheckpointRecord& checkpoint : expected.checkpoints) last.add(checkpoint);
  last.add(expected.clocks[0]);
  last.flush();

  EXPECT_EQ(read_results(path), (RunResults{header, expected, {first_attempt()}, false}));
  EXPECT_EQ(read_results(parts_folder(path)), (RunResults{header, expected, {first_attempt()}, false}));
  EXPECT_EQ(read_results(parts_folder(path) + "/"), (RunResults{header, expected, {first_attempt()}, false}));
  merge_results(path);
  EXPECT_EQ(read_results(path), (RunResults{header, expected, {first_attempt()}, true}));
  EXPECT_EQ(read_provenance(path), (Provenance{header.command_line, header.settings}));
  EXPECT_EQ(folder.entries(), 1u);
  merge_results(path);
  EXPECT_EQ(read_results(path), (RunResults{header, expected, {first_attempt()}, true}));
}

TEST(Results, an_empty_run_can_be_read) {
  const ScratchFolder folder;
  ASSERT_EQ(begin_results(folder.file("run.h5"), sample_header()), 0);
  EXPECT_EQ(read_results(folder.file("run.h5")), (RunResults{sample_header(), {}, {first_attempt()}, false}));
}

TEST(Results, a_restart_replaces_the_steps_that_it_repeats) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  RunHeader header = sample_header();
  ASSERT_EQ(begin_results(path, header), 0);
  record(path, 0, 0, 6, 0.1F);
  header.first_step = 4;
  ASSERT_EQ(begin_results(path, header, true), 1);
  record(path, 1, 4, 8, 0.2F);

  const RunResults results = read_results(path);
  ASSERT_EQ(results.tables.steps.size(), 8u);
  for (std::int64_t step = 0; step < 8; ++step) {
    EXPECT_EQ(results.tables.steps[static_cast<std::size_t>(step)].step, step);
    EXPECT_EQ(results.tables.steps[static_cast<std::size_t>(step)].loss, step < 4 ? 0.1F : 0.2F);
  }
  EXPECT_EQ(results.tables.ranks.size(), 16u);
  EXPECT_EQ(results.header.first_step, 0);
}

TEST(Results, a_merged_file_is_continued_by_a_restart) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  RunHeader header = sample_header();
  ASSERT_EQ(begin_results(path, header), 0);
  record(path, 0, 0, 3, 0.1F);
  merge_results(path);
  header.first_step = 3;
  ASSERT_EQ(begin_results(path, header, true), 1);
  record(path, 1, 3, 5, 0.2F);
  merge_results(path);
  EXPECT_EQ(read_results(path).tables.steps.size(), 5u);
}

TEST(Results, a_restart_with_another_plan_keeps_losses_only) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  RunHeader header = sample_header();
  ASSERT_EQ(begin_results(path, header), 0);
  record(path, 0, 0, 3, 0.1F);
  header.first_step = 2;
  header.plan.schedule = "gpipe";
  ASSERT_EQ(begin_results(path, header, true), 1);
  merge_results(path);
  const RunResults results = read_results(path);
  EXPECT_EQ(results.tables.steps.size(), 2u);
  EXPECT_TRUE(results.tables.ranks.empty());
}

TEST(Results, restarts_are_listed_also_after_a_merge) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  RunHeader header = sample_header();
  std::vector<RunAttempt> expected{first_attempt()};
  ASSERT_EQ(begin_results(path, header), 0);
  for (const std::int64_t step : {4, 2, 5}) {
    header.first_step = step;
    header.job = std::to_string(100 + step);
    header.started = "later";
    header.plan.schedule = step == 5 ? "gpipe" : "1f1b";
    expected.push_back({step, "later", header.plan.schedule, 2, header.job});
    static_cast<void>(begin_results(path, header, true));
    EXPECT_EQ(read_results(path).attempts, expected);
    merge_results(path);
    EXPECT_EQ(read_results(path).attempts, expected);
    EXPECT_EQ(read_results(path).header.job, header.job);
    EXPECT_EQ(read_results(path).header.first_step, 0);
  }
}

TEST(Results, checkpoints_count_up_to_the_step_that_a_restart_begins_with) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  RunHeader header = sample_header();
  const auto attempt = [&](std::int64_t first, const std::vector<std::int64_t>& steps) {
    header.first_step = first;
    const int number = begin_results(path, header, first > 0);
    ResultsWriter writer(path, 0, number);
    for (const std::int64_t step : steps) writer.add(CheckpointRecord{step, 0.5, static_cast<double>(number), 7, true});
    writer.flush();
  };
  attempt(0, {10, 20, 30});
  attempt(20, {30, 40});
  header.plan.schedule = "gpipe";
  attempt(40, {50});
  const std::vector<CheckpointRecord> expected{{10, 0.5, 0, 7, true},
                                               {20, 0.5, 0, 7, true},
                                               {30, 0.5, 1, 7, true},
                                               {40, 0.5, 1, 7, true},
                                               {50, 0.5, 2, 7, true}};
  EXPECT_EQ(read_results(path).tables.checkpoints, expected);
  merge_results(path);
  EXPECT_EQ(read_results(path).tables.checkpoints, expected);
}

TEST(Results, from_before_there_were_restarts_are_one_attempt) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  ASSERT_EQ(begin_results(path, sample_header()), 0);
  record(path, 0, 0, 3, 0.1F);
  merge_results(path);
  RunResults expected = read_results(path);
  expected.header.job = expected.attempts[0].job = "";
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  for (const char* name : {"run/attempts", "checkpoints"}) EXPECT_GE(H5Ldelete(file, name, H5P_DEFAULT), 0);
  H5Fclose(file);
  EXPECT_EQ(read_results(path), expected);
  EXPECT_EQ(begin_results(path, sample_header(), true), 1);
  EXPECT_EQ(read_results(path).attempts, (std::vector<RunAttempt>{expected.attempts[0], first_attempt()}));
}

TEST(Results, of_a_run_that_has_ended_are_merged_on_request) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5"), parts = parts_folder(path);
  EXPECT_FALSE(merge_ended_run(path));
  EXPECT_EQ(folder.entries(), 0u);
  {
    const FolderLock lock(parts);
    ASSERT_EQ(begin_results(path, sample_header()), 0);
    EXPECT_THROW(merge_ended_run(path), Error);
    EXPECT_THROW(merge_ended_run(parts), Error);
  }
  EXPECT_TRUE(merge_ended_run(parts));
  EXPECT_TRUE(read_results(path).merged);
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_FALSE(merge_ended_run(path));
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Results, a_fresh_run_drops_the_parts_of_an_earlier_one) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  ASSERT_EQ(begin_results(path, sample_header()), 0);
  record(path, 0, 0, 6, 0.1F);
  ASSERT_EQ(begin_results(path, sample_header()), 0);
  EXPECT_TRUE(read_results(path).tables.steps.empty());
}

TEST(Results, foreign_files_beside_parts_are_not_deleted) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  std::filesystem::create_directory(parts_folder(path));
  std::ofstream(parts_folder(path) + "/thesis.txt") << "years of work";
  try {
    static_cast<void>(begin_results(path, sample_header()));
    FAIL() << "a foreign file was ignored";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
  }
  EXPECT_TRUE(std::filesystem::exists(parts_folder(path) + "/thesis.txt"));
}

TEST(Results, rows_that_name_no_rank_are_refused) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  ASSERT_EQ(begin_results(path, sample_header()), 0);
  ResultsWriter writer(path, 0);
  writer.add(sample_rank_step(0, 2));
  writer.flush();
  EXPECT_THROW(static_cast<void>(read_results(path)), Error);
}

TEST(Results, times_that_no_clock_gives_are_refused) {
  const auto refused = [](const auto& add) {
    const ScratchFolder folder;
    const std::string path = folder.file("run.h5");
    EXPECT_EQ(begin_results(path, sample_header()), 0);
    ResultsWriter writer(path, 0);
    add(writer);
    writer.flush();
    EXPECT_THROW(static_cast<void>(read_results(path)), Error);
  };
  refused([](ResultsWriter& writer) { writer.add(StepRecord{0, 0, 1, -1}); });
  refused([](ResultsWriter& writer) { writer.add(CheckpointRecord{.step = 1, .snapshot_s = -1}); });
  refused([](ResultsWriter& writer) { writer.add(CheckpointRecord{.step = 1, .bytes = -1}); });
  refused([](ResultsWriter& writer) { writer.add(sample_rank_step(-1, 0)); });
  refused([](ResultsWriter& writer) { writer.add(RankStep{.rank = 0, .wait_ns = -1}); });
  refused([](ResultsWriter& writer) {
    writer.add_timeline(0, {.instructions = {{0, std::numeric_limits<std::int64_t>::min()}}});
  });
}

TEST(Results, a_folder_of_parts_has_one_writer_at_a_time) {
  const ScratchFolder folder;
  const std::string parts = parts_folder(folder.file("run.h5"));
  {
    const FolderLock first(parts);
    EXPECT_THROW(FolderLock second(parts), Error);
    ASSERT_EQ(begin_results(folder.file("run.h5"), sample_header()), 0);  // keeps the folder that is locked
    EXPECT_THROW(FolderLock second(parts), Error);
  }
  const FolderLock later(parts);
}

TEST(Results, a_part_being_written_is_not_read) {
  const ScratchFolder folder;
  const std::string path = folder.file("run.h5");
  std::filesystem::create_directory(parts_folder(path));
  std::ofstream(parts_folder(path) + "/attempt-0000.header.h5.1234.tmp") << "half";
  EXPECT_FALSE(has_parts(path));
  ASSERT_EQ(begin_results(path, sample_header(), true), 0);
  EXPECT_TRUE(has_parts(path));
  record(path, 0, 0, 1, 0.1F);
  std::ofstream(parts_folder(path) + "/attempt-0000.rank-000000.part-000001.h5.1234.tmp") << "half";
  EXPECT_EQ(read_results(path).tables.steps.size(), 1u);
  merge_results(path);
  EXPECT_EQ(folder.entries(), 1u);
}

}  // namespace
}  // namespace sluice
