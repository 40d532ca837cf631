// What damage, full disks and kills do to files: nothing half done is ever met under a final name.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <numeric>
#include <random>

#include "core/error.h"
#include "core/storage/checkpoint_files.h"
#include "core/storage/cluster_file.h"
#include "core/storage/dataset_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/storage/results_file.h"
#include "core/storage/weights_file.h"
#include "tests/unit/storage/faults.h"
#include "tests/unit/storage/samples.h"

/// For the leak sanitizer, which asks for it by name: a file that a full disk
/// keeps from being closed is left open on purpose (see ~FileWriter).
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace sluice {
namespace {

/// Truncates, or changes a few bytes.
std::string damaged(std::string bytes, std::mt19937& random) {
  if (random() % 4 == 0) return bytes.substr(0, random() % bytes.size());
  for (auto changes = 1 + random() % 4; changes > 0; --changes)
    bytes[random() % bytes.size()] = static_cast<char>(random());
  return bytes;
}

/// Damages `path` again and again: `intact` must say yes, or throw an Error of exit code 3.
void fuzz(const std::string& path, const std::function<bool()>& intact) {
  const std::string whole = bytes_of_file(path);
  ASSERT_TRUE(intact());
  const unsigned seed = rounds() == 1 ? 1 : std::random_device{}();
  std::cout << path << ": seed " << seed << std::endl;  // at once, in case of a crash
  std::mt19937 random(seed);
  int refused = 0;
  const int count = 150 * rounds();
  for (int i = 0; i < count; ++i) {
    set_bytes(path, damaged(whole, random));
    try {
      EXPECT_TRUE(intact()) << "seed " << seed << ", round " << i << ": other values were read without complaint";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input) << error.what();
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, count / 4);  // the damage must be able to do harm
}

TEST(Fuzz, a_damaged_profile_is_refused_or_harmless) {
  const ScratchFolder folder;
  const std::string path = folder.file("p.h5");
  write_profile(path, sample_profile());
  fuzz(path, [&] { return read_profile(path) == sample_profile(); });
}

TEST(Fuzz, a_damaged_cluster_is_refused_or_harmless) {
  const ScratchFolder folder;
  const std::string path = folder.file("c.h5");
  write_cluster(path, sample_cluster());
  fuzz(path, [&] { return read_cluster(path) == sample_cluster(); });
}

TEST(Fuzz, a_damaged_plan_is_refused_or_harmless) {
  const ScratchFolder folder;
  const std::string path = folder.file("plan.h5");
  write_plan(path, sample_plan());
  fuzz(path, [&] { return read_plan(path) == sample_plan(); });
}

TEST(Fuzz, damaged_weights_are_refused_or_harmless) {
  const ScratchFolder folder;
  const std::string path = folder.file("w.h5");
  const Weights weights{{"conv", {{"weight", {{10, 10}, std::vector<float>(100, 0.5F)}}, {"bias", {{2}, {1, 2}}}}}};
  write_weights(path, weights);
  fuzz(path, [&] { return read_weights(path) == weights; });
}

RunHeader small_header() {
  RunHeader header;
  header.plan = sample_plan();
  header.places = {{"a", 1}, {"b", 1}};
  return header;
}

TEST(Fuzz, damaged_results_are_refused_or_harmless) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  ASSERT_EQ(begin_results(path, small_header()), 0);
  ResultsWriter writer(path, 0);
  for (std::int64_t step = 0; step < 100; ++step) writer.add(StepRecord{step, 0, 0.5F, 0.1});
  writer.flush();
  merge_results(path);
  const RunResults expected = read_results(path);
  fuzz(path, [&] { return read_results(path) == expected; });
}

TEST(Fuzz, a_damaged_checkpoint_is_refused_or_harmless) {
  const ScratchFolder folder;
  const std::string states = folder.file("rank-000000.h5"), manifest = folder.file("manifest.h5");
  const LayerStates expected{{"fc", {{"weight", {{2, 2}, {1, 2, 3, 4}, {5, 6, 7, 8}}}}}};
  CheckpointManifest written;
  written.samples = written.microbatch = written.microbatches = written.threads = written.ranks = 1;
  written.files = {write_state(folder.path(), "rank-000000.h5", state_image(expected))};
  written.files[0].layers = {"fc"};
  write_manifest(folder.path(), written);
  const auto intact = [&] {
    const CheckpointManifest read = read_manifest(folder.path());
    verify_state(folder.path(), read.files.at(0));
    return read == written && read_state(states) == expected;
  };
  fuzz(manifest, intact);
  write_manifest(folder.path(), written);
  fuzz(states, intact);
}

/// Pixels carry no checksum, since rows are read directly; all else does.
TEST(Fuzz, a_damaged_dataset_is_refused_or_differs_in_pixels_only) {
  const ScratchFolder folder;
  const std::string path = folder.file("d.h5");
  const LabelledImages train{std::vector<std::uint8_t>(400, 7), std::vector<std::int32_t>(100, 2)};
  write_dataset(path, {2, 2, 1, 3}, train, train);
  fuzz(path, [&] {
    const DatasetReader reader(path);
    std::vector<std::int64_t> rows(100);
    std::iota(rows.begin(), rows.end(), 0);
    LabelledImages read{std::vector<std::uint8_t>(400), std::vector<std::int32_t>(100)};
    reader.read_rows(Split::train, rows, read.images.data(), read.labels.data());
    return read.labels == train.labels && reader.kind() == ImageKind{2, 2, 1, 3};
  });
}

Plan long_plan() {
  Plan plan = sample_plan();
  std::mt19937 random(1);
  plan.microbatches = 1 << 30;
  for (int i = 0; i < 20'000; ++i)
    plan.programs[0].ranks[1].push_back({Op::forward, 1, kNone, static_cast<int>(random() % (1U << 30))});
  return plan;
}

TEST(FullDisk, is_a_runtime_fault_that_leaves_the_older_file_alone) {
  const ScratchFolder folder;
  const std::string path = folder.file("plan.h5");
  const Plan plan = long_plan();
  write_plan(path, sample_plan());
  const std::string older = bytes_of_file(path);
  for (const rlim_t limit : {0, 100, 5'000, 20'000, 40'000, 60'000})
    EXPECT_EQ(with_file_limit(limit, [&] { write_plan(path, plan); }), 1) << "limit " << limit;
  EXPECT_EQ(bytes_of_file(path), older);
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_EQ(with_file_limit(10'000'000, [&] { write_plan(path, plan); }), 0);
  EXPECT_EQ(read_plan(path), plan);
}

TEST(FullDisk, message_says_what_failed) {
  const ScratchFolder folder;
  const std::string path = folder.file("w.h5");
  EXPECT_EQ(with_file_limit(50'000,
                            [&] {
                              try {
                                write_weights(path, {{"fc", {{"weight", {{100'000}, std::vector<float>(100'000)}}}}});
                              } catch (const Error& error) {
                                const std::string message = error.what();
                                const bool clear = message.find(path) != std::string::npos &&
                                                   message.find("File too large") != std::string::npos;
                                std::cout << message << std::endl;
                                exit(clear ? 42 : 43);
                              }
                            }),
            42);
}

TEST(UnwritableOutput, is_bad_input_and_said_early) {
  const ScratchFolder folder;
  for (const std::string& path : {folder.file("absent/c.h5"), folder.path().string(), std::string("/proc/c.h5"),
                                  std::string("/dev/null"), std::string()})
    for (const auto& action : {std::function<void()>([&] { write_cluster(path, sample_cluster()); }),
                               std::function<void()>([&] { check_writable(path, kClusterSchema); })})
      try {
        action();
        ADD_FAILURE() << path << " was written";
      } catch (const Error& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
        EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      }
  check_writable(folder.file("c.h5"), kClusterSchema);
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(UnwritableOutput, is_a_file_of_another_kind_which_stays) {
  const ScratchFolder folder;
  write_profile(folder.file("p.h5"), sample_profile());
  set_bytes(folder.file("notes.txt"), "not to be lost");
  for (const char* name : {"p.h5", "notes.txt"}) {
    const std::string path = folder.file(name), before = bytes_of_file(path);
    EXPECT_THROW(check_writable(path, kClusterSchema), Error);
    EXPECT_THROW(write_cluster(path, sample_cluster()), Error);
    EXPECT_THROW(static_cast<void>(begin_results(path, small_header())), Error);
    EXPECT_EQ(bytes_of_file(path), before);
  }
  write_profile(folder.file("p.h5"), sample_profile());  // its own kind it replaces
  set_bytes(folder.file("empty.h5"), "");                // and what mktemp made for it
  write_profile(folder.file("empty.h5"), sample_profile());
  EXPECT_EQ(folder.entries(), 3u);
}

TEST(KilledWriter, leaves_the_older_file_or_the_new_one) {
  const ScratchFolder folder;
  const std::string path = folder.file("plan.h5");
  const Plan older = sample_plan(), newer = long_plan();
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  int unfinished = 0;
  for (int round = 0; round < 20 * rounds(); ++round) {
    write_plan(path, older);
    const pid_t child = fork();
    if (child == 0) {
      write_plan(path, newer);
      _exit(0);
    }
    usleep(static_cast<useconds_t>(random() % 60'000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    const Plan read = read_plan(path);
    EXPECT_TRUE(read == older || read == newer) << "seed " << seed << ", round " << round;
    unfinished += WIFSIGNALED(status) ? 1 : 0;
  }
  EXPECT_GT(unfinished, 0) << "no writer was killed in time";
}

TEST(KilledWriter, loses_at_most_the_part_being_written) {
  const ScratchFolder folder;
  const std::string path = folder.file("r.h5");
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 10 * rounds(); ++round) {
    ASSERT_EQ(begin_results(path, small_header()), 0);
    ResultsWriter writer(path, 0);
    const std::int64_t flushed = steps_until_killed(random, [&](std::int64_t step) {
      writer.add(StepRecord{step - 1, 0, 1, 1});
      writer.flush();
    });
    const std::int64_t kept = std::ssize(read_results(path).tables.steps);
    EXPECT_GE(kept, flushed) << "seed " << seed << ", round " << round;
    EXPECT_LE(kept, flushed + 1) << "seed " << seed << ", round " << round;
  }
}

}  // namespace
}  // namespace sluice
