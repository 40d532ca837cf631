#include "core/storage/checkpoint_files.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/storage/cluster_file.h"
#include "core/storage/reader.h"
#include "core/text.h"
#include "tests/unit/storage/faults.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

ParameterState state(const Shape& shape, float first) {
  ParameterState state{shape, {}, {}};
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    state.weights.push_back(first + static_cast<float>(i));
    state.momentum.push_back(-first / static_cast<float>(i + 3));
  }
  return state;
}

LayerStates first_states() {
  return {{"conv1", {{"weight", state({2, 1, 3, 3}, 0.5F)}, {"bias", state({2}, -1)}}}, {"fc1", {}}};
}

LayerStates second_states() { return {{"fc2", {{"other", state({2}, 1)}, {"weight", state({3, 4}, 1e-40F)}}}}; }

CheckpointManifest sample_manifest(std::int64_t step) {
  return {.step = step,
          .epoch = 3,
          .seed = 7,
          .samples = 60'000,
          .microbatch = 32,
          .microbatches = 8,
          .threads = 2,
          .ranks = 2,
          .device = "host, oneDNN 2.6.3",
          .model = "lenet5",
          .schedule = "1f1b",
          .command_line = "sluice-run train --plan p.h5",
          .settings = {{"learning-rate", "0.01"}, {"note", ""}},
          .files = {}};
}

StateFile write_states(const std::string& folder, int rank, const LayerStates& states) {
  StateFile file = write_state(folder, state_name(rank), state_image(states));
  for (const auto& [layer, parameters] : states) file.layers.push_back(layer);
  return file;
}

/// A whole checkpoint of two ranks.
CheckpointManifest write_checkpoint(const std::string& checkpoints, std::int64_t step) {
  const std::string folder = checkpoint_folder(checkpoints, step);
  CheckpointManifest manifest = sample_manifest(step);
  manifest.files = {write_states(folder, 0, first_states()), write_states(folder, 12, second_states())};
  write_manifest(folder, manifest);
  return manifest;
}

/// What newest_checkpoint finds, and what it passes over.
struct Found {
  std::optional<CheckpointManifest> manifest;
  std::vector<std::string> passed_over;
};

Found find_newest(const std::string& checkpoints) {
  Found found;
  found.manifest =
      newest_checkpoint(checkpoints, [&](const std::string& fault) { found.passed_over.push_back(fault); });
  return found;
}

void expect_error(ExitCode code, const std::string& complaint, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected: " << complaint;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(complaint), std::string::npos) << error.what();
  }
}

TEST(Checkpoint, returns_every_field_bit_for_bit) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.file("a/b");
  const CheckpointManifest manifest = write_checkpoint(checkpoints, 120);
  const std::string folder = checkpoint_folder(checkpoints, 120);
  EXPECT_EQ(folder, checkpoints + "/step-000000000120");
  EXPECT_EQ(read_manifest(folder), manifest);
  EXPECT_EQ(manifest.files[1].name, "rank-000012.h5");
  for (const StateFile& file : manifest.files) verify_state(folder, file);
  EXPECT_EQ(read_state(folder + "/rank-000000.h5"), first_states());
  EXPECT_EQ(read_state(folder + "/rank-000012.h5"), second_states());
  EXPECT_EQ(schema_of(folder + "/rank-000000.h5"), "sluice/checkpoint_state");
  EXPECT_EQ(schema_of(folder + "/manifest.h5"), "sluice/checkpoint");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 3);
}

TEST(Checkpoint, keeps_values_that_are_no_numbers_and_signs_of_zero) {
  const ScratchFolder scratch;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const LayerStates states{{"fc", {{"w", {{4}, {nan, -0.0F, inf, 1}, {-inf, 0, -nan, 3e-45F}}}}}};
  const StateFile file = write_states(scratch.path(), 0, states);
  const ParameterState read = read_state(scratch.file(file.name)).at("fc").at("w");
  const auto equal = [](const auto& a, const auto& b) { return std::memcmp(a.data(), b.data(), 16) == 0; };
  EXPECT_TRUE(equal(read.weights, states.at("fc").at("w").weights));
  EXPECT_TRUE(equal(read.momentum, states.at("fc").at("w").momentum));
}

TEST(Checkpoint, reads_only_the_layers_that_are_wanted) {
  const ScratchFolder scratch;
  const LayerStates states{{"a", {{"w", state({2}, 1)}}}, {"b", {{"w", state({3}, 2)}}}, {"c", {{"w", state({4}, 3)}}}};
  const StateFile file = write_states(scratch.path(), 0, states);
  const std::vector<std::string> wanted{"b", "elsewhere", "c"};
  LayerStates expected = states;
  expected.erase("a");
  EXPECT_EQ(read_state(scratch.file(file.name), wanted), expected);
}

TEST(Checkpoint, takes_empty_states_and_empty_arrays) {
  const ScratchFolder scratch;
  const LayerStates states{{"none", {}}, {"void", {{"w", state({0, 5}, 1)}, {"scalar", state({}, 2)}}}};
  EXPECT_EQ(read_state(scratch.file(write_states(scratch.path(), 0, states).name)), states);
  EXPECT_EQ(read_state(scratch.file(write_states(scratch.path(), 1, {}).name)), LayerStates{});
  const std::string folder = checkpoint_folder(scratch.file("c"), 0);
  fs::create_directories(folder);
  write_manifest(folder, sample_manifest(0));
  EXPECT_EQ(read_manifest(folder), sample_manifest(0));
}

TEST(Checkpoint, takes_strange_names_of_layers_and_refuses_impossible_ones) {
  const ScratchFolder scratch;
  LayerStates states;
  for (const std::string name : {"..", " ", "a b\n", "Conv2d(1, 6) \xc3\xbc", "\xff\xfe", "*?[]\\\"'", "a.b.c"})
    states[name][name] = state({2}, 1);
  states[std::string(20'000, 'x')]["w"] = state({1}, 2);
  CheckpointManifest manifest = sample_manifest(1);
  manifest.files = {write_states(scratch.path(), 0, states)};
  EXPECT_EQ(read_state(scratch.file("rank-000000.h5")), states);
  write_manifest(scratch.path(), manifest);
  EXPECT_EQ(read_manifest(scratch.path()), manifest);
  for (const std::string& name :
       {std::string(), std::string("."), std::string("a/b"), std::string("/"), std::string("a\0b", 3)}) {
    expect_error(ExitCode::bad_input, "cannot name a dataset", [&] {
      static_cast<void>(state_image({{name, {{"w", state({1}, 1)}}}}));
    });
    expect_error(ExitCode::bad_input, "cannot name a dataset", [&] {
      static_cast<void>(state_image({{"fc", {{name, state({1}, 1)}}}}));
    });
  }
}

TEST(Checkpoint, refuses_sizes_that_do_not_match_their_shape) {
  ParameterState few = state({2, 3}, 1), slow = few;
  few.weights.pop_back();
  slow.momentum.push_back(1);
  for (const ParameterState& wrong : {few, slow})
    expect_error(ExitCode::bad_input, "fc/w", [&] { static_cast<void>(state_image({{"fc", {{"w", wrong}}}})); });
}

TEST(Checkpoint, whose_momentum_does_not_match_its_weights_is_refused) {
  const ScratchFolder scratch;
  const auto damaged = [&](const std::function<void(hid_t)>& damage) {
    const std::string path = scratch.file(write_states(scratch.path(), 0, second_states()).name);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    damage(file);
    H5Fclose(file);
    return [path] { static_cast<void>(read_state(path)); };
  };
  const char* name = "momentum/fc2/weight";
  expect_error(ExitCode::bad_input, "/momentum/fc2/weight: is missing",
               damaged([&](hid_t file) { H5Ldelete(file, name, H5P_DEFAULT); }));
  expect_error(ExitCode::bad_input, "/momentum/fc2/weight: has another shape", damaged([&](hid_t file) {
                 H5Ldelete(file, name, H5P_DEFAULT);
                 H5Lcreate_hard(file, "weights/fc2/other", file, name, H5P_DEFAULT, H5P_DEFAULT);
               }));
}

TEST(Checkpoint, that_has_a_layer_or_a_file_twice_is_refused) {
  const ScratchFolder scratch;
  CheckpointManifest manifest = sample_manifest(1);
  manifest.files = {{"a.h5", 1, 2, {"conv1"}}, {"b.h5", 1, 2, {"fc1", "conv1"}}};
  expect_error(ExitCode::bad_input, "conv1 is there twice", [&] { write_manifest(scratch.path(), manifest); });
  manifest.files = {{"a.h5", 1, 2, {}}, {"a.h5", 1, 2, {}}};
  expect_error(ExitCode::bad_input, "a.h5 is there twice", [&] { write_manifest(scratch.path(), manifest); });
  for (const char* name : {"", ".", "..", "../a.h5", "/etc/passwd", "manifest.h5"}) {
    manifest.files = {{name, 1, 2, {}}};
    expect_error(ExitCode::bad_input, "cannot name a file", [&] { write_manifest(scratch.path(), manifest); });
  }
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(Checkpoint, without_a_manifest_is_none) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.file("c");
  EXPECT_TRUE(checkpoint_steps(checkpoints).empty());
  EXPECT_FALSE(find_newest(checkpoints).manifest);
  write_checkpoint(checkpoints, 10);
  write_states(checkpoint_folder(checkpoints, 20), 0, first_states());
  EXPECT_EQ(checkpoint_steps(checkpoints), std::vector<std::int64_t>{10});
  expect_error(ExitCode::bad_input, "step-000000000020/manifest.h5",
               [&] { static_cast<void>(read_manifest(checkpoint_folder(checkpoints, 20))); });
}

TEST(Checkpoint, steps_come_newest_first_and_other_names_do_not_count) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.path();
  for (const std::int64_t step : std::vector<std::int64_t>{2, 1'000'000'000'000, 10})
    write_checkpoint(checkpoints, step);
  for (const char* name : {"step-5", "step-00000000000x", "step--00000000001", "step-", "old", "step-0000000000010"})
    fs::copy(checkpoint_folder(checkpoints, 2), scratch.file(name), fs::copy_options::recursive);
  set_bytes(scratch.file("step-000000000003"), "a file");
  EXPECT_EQ(checkpoint_steps(checkpoints), (std::vector<std::int64_t>{1'000'000'000'000, 10, 2}));
  expect_error(ExitCode::bad_input, "cannot be read",
               [&] { static_cast<void>(checkpoint_steps(scratch.file("step-000000000003"))); });
}

TEST(Checkpoint, damaged_ones_are_named_and_passed_over) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.path();
  for (const std::int64_t step : {1, 2, 3, 4}) write_checkpoint(checkpoints, step);
  fs::remove(checkpoint_folder(checkpoints, 4) + "/rank-000012.h5");
  set_bytes(checkpoint_folder(checkpoints, 3) + "/manifest.h5", "");
  const std::string damaged = checkpoint_folder(checkpoints, 2) + "/rank-000000.h5";
  std::string bytes = bytes_of_file(damaged);
  bytes[bytes.size() / 2] ^= 1;
  set_bytes(damaged, bytes);
  const Found found = find_newest(checkpoints);
  ASSERT_TRUE(found.manifest);
  EXPECT_EQ(found.manifest->step, 1);
  ASSERT_EQ(found.passed_over.size(), 3u);
  EXPECT_NE(found.passed_over[0].find("step-000000000004/rank-000012.h5"), std::string::npos);
  EXPECT_NE(found.passed_over[1].find("step-000000000003/manifest.h5"), std::string::npos);
  EXPECT_NE(found.passed_over[2].find(damaged + ": has the checksum"), std::string::npos) << found.passed_over[2];
}

/// Calls `check` with each byte of the file changed in turn, then for shorter and shorter files.
void damage_everywhere(const std::string& path, const std::function<void(std::size_t)>& check) {
  const std::string whole = bytes_of_file(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](std::size_t i, char byte) { file.seekp(static_cast<std::streamoff>(i)).put(byte).flush(); };
    for (std::size_t i = 0; i < whole.size(); ++i) {
      put(i, static_cast<char>(whole[i] ^ static_cast<char>(1 + i % 255)));
      check(i);
      put(i, whole[i]);
    }
  }
  ASSERT_EQ(bytes_of_file(path), whole);
  for (std::size_t bytes = whole.size(); bytes > 0; bytes -= std::min<std::size_t>(bytes, 1 + bytes / 50)) {
    fs::resize_file(path, bytes - 1);
    check(bytes);
  }
  set_bytes(path, whole + "x");
  check(whole.size());
  set_bytes(path, whole);
}

TEST(Checkpoint, no_damaged_byte_of_a_state_file_is_taken_for_the_truth) {
  const ScratchFolder scratch;
  const StateFile file = write_states(scratch.path(), 0, second_states());
  int refused = 0;
  damage_everywhere(scratch.file(file.name), [&](std::size_t byte) {
    EXPECT_THROW(verify_state(scratch.path(), file), Error);
    if (byte % 8 != 0) return;
    try {
      static_cast<void>(read_state(scratch.file(file.name)));  // damaged values it cannot know, but it must not crash
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
      ++refused;
    }
  });
  EXPECT_GT(refused, 100);
  verify_state(scratch.path(), file);
}

TEST(Checkpoint, a_damaged_byte_of_a_manifest_is_refused_or_harmless) {
  const ScratchFolder scratch;
  const CheckpointManifest manifest = write_checkpoint(scratch.path(), 5);
  const std::string folder = checkpoint_folder(scratch.path(), 5);
  int refused = 0;
  damage_everywhere(folder + "/manifest.h5", [&](std::size_t) {
    try {
      EXPECT_EQ(read_manifest(folder), manifest);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
      EXPECT_NE(std::string(error.what()).find(folder), std::string::npos) << error.what();
      ++refused;
    }
  });
  EXPECT_GT(refused, 1000);
}

TEST(Checkpoint, rewriting_a_step_replaces_all_that_was_there) {
  const ScratchFolder scratch;
  const std::string folder = checkpoint_folder(scratch.path(), 5);
  write_checkpoint(scratch.path(), 5);
  set_bytes(folder + "/rank-000000.h5.12ab.tmp", "of a killed writer");
  set_bytes(folder + "/manifest.h5", "damaged");
  CheckpointManifest manifest = sample_manifest(5);
  manifest.files = {write_states(folder, 0, second_states())};
  EXPECT_TRUE(checkpoint_steps(scratch.path()).empty()) << "half old, half new";
  EXPECT_FALSE(fs::exists(folder + "/rank-000000.h5.12ab.tmp"));
  set_bytes(folder + "/manifest.h5.34cd.tmp", "of a killed writer");
  write_manifest(folder, manifest);
  EXPECT_EQ(find_newest(scratch.path()).manifest, manifest);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 2);
}

TEST(Checkpoint, removing_takes_what_killed_writers_left_and_nothing_else) {
  const ScratchFolder scratch;
  const std::string folder = checkpoint_folder(scratch.path(), 5);
  remove_checkpoint(folder);
  write_checkpoint(scratch.path(), 5);
  set_bytes(folder + "/rank-000000.h5.12ab.tmp", "of a killed writer");
  remove_checkpoint(folder);
  EXPECT_FALSE(fs::exists(folder));
  write_checkpoint(scratch.path(), 5);
  set_bytes(folder + "/thesis.txt", "years of work");
  remove_checkpoint(folder);
  EXPECT_TRUE(checkpoint_steps(scratch.path()).empty());
  EXPECT_EQ(bytes_of_file(folder + "/thesis.txt"), "years of work");
}

TEST(Checkpoint, pruning_keeps_the_newest_and_removes_what_is_no_checkpoint) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.path();
  for (const std::int64_t step : {10, 20, 30, 40, 50}) write_checkpoint(checkpoints, step);
  write_states(checkpoint_folder(checkpoints, 35), 0, first_states());
  prune_checkpoints(checkpoints, 40, 2);
  EXPECT_EQ(checkpoint_steps(checkpoints), (std::vector<std::int64_t>{50, 40, 30}));
  EXPECT_EQ(scratch.entries(), 3u);
  prune_checkpoints(checkpoints, 40, 1);
  EXPECT_EQ(checkpoint_steps(checkpoints), (std::vector<std::int64_t>{50, 40}));
}

TEST(Checkpoint, going_on_from_an_older_one_puts_the_later_ones_aside_and_removes_half_ones) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.path(), folder = checkpoint_folder(checkpoints, 30);
  for (const std::int64_t step : {10, 20}) write_checkpoint(checkpoints, step);
  write_states(checkpoint_folder(checkpoints, 25), 0, first_states());
  for (const std::string& aside : {folder + ".passed-over", folder + ".passed-over-2"}) {
    const CheckpointManifest manifest = write_checkpoint(checkpoints, 30);
    EXPECT_EQ(clear_later_checkpoints(checkpoints, 20), std::vector<std::string>{aside});
    EXPECT_EQ(verified_manifest(aside), manifest);
    EXPECT_EQ(checkpoint_steps(checkpoints), (std::vector<std::int64_t>{20, 10}));
  }
  EXPECT_EQ(scratch.entries(), 4u);
}

TEST(Checkpoint, of_a_newer_program_is_passed_over_and_says_so) {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), 1);
  write_checkpoint(scratch.path(), 2);
  const std::string newer = checkpoint_folder(scratch.path(), 2) + "/manifest.h5";
  const hid_t file = H5Fopen(newer.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t version = H5Aopen(file, "schema_version", H5P_DEFAULT);
  const int value = 99;
  H5Awrite(version, H5T_NATIVE_INT, &value);
  H5Aclose(version);
  H5Fclose(file);
  const Found found = find_newest(scratch.path());
  EXPECT_EQ(found.manifest.value().step, 1);
  EXPECT_NE(found.passed_over.at(0).find(newer + ": schema_version is 99"), std::string::npos);
}

TEST(Checkpoint, of_another_step_than_its_folder_is_passed_over) {
  const ScratchFolder scratch;
  write_checkpoint(scratch.path(), 1);
  write_checkpoint(scratch.path(), 2);
  fs::rename(checkpoint_folder(scratch.path(), 2), checkpoint_folder(scratch.path(), 3));
  const Found found = find_newest(scratch.path());
  EXPECT_EQ(found.manifest.value().step, 1);
  EXPECT_NE(found.passed_over.at(0).find("manifest.h5: is of step 2, expected 3"), std::string::npos);
}

/// Somebody may link to a checkpoint of another run to begin with it.
TEST(Checkpoint, that_is_a_link_is_used_and_what_it_leads_to_never_removed) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.file("c"), theirs = checkpoint_folder(scratch.file("theirs"), 5);
  const CheckpointManifest manifest = write_checkpoint(scratch.file("theirs"), 5);
  fs::create_directory(checkpoints);
  fs::create_directory_symlink(theirs, checkpoint_folder(checkpoints, 5));
  fs::create_directory_symlink(checkpoint_folder(checkpoints, 7), checkpoint_folder(checkpoints, 7));  // in a circle
  EXPECT_EQ(find_newest(checkpoints).manifest, manifest);
  write_checkpoint(checkpoints, 6);
  prune_checkpoints(checkpoints, 6, 1);
  EXPECT_EQ(checkpoint_steps(checkpoints), std::vector<std::int64_t>{6});
  EXPECT_EQ(verified_manifest(theirs), manifest);
}

TEST(Checkpoint, is_written_beside_other_work_with_files) {
  const ScratchFolder scratch;
  const std::vector<std::byte> image = state_image({{"fc", {{"w", state({1'000'000}, 1)}}}});
  StateFile file;
  std::thread writer([&] { file = write_state(scratch.file("c"), "a.h5", image); });
  for (int i = 0; i < 20; ++i) write_cluster(scratch.file("cluster.h5"), sample_cluster());
  writer.join();
  verify_state(scratch.file("c"), file);
  EXPECT_EQ(file.bytes, std::ssize(image));
}

TEST(Checkpoint, on_a_full_disk_is_a_runtime_fault_and_the_older_one_stands) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.path(), folder = checkpoint_folder(checkpoints, 2);
  const CheckpointManifest older = write_checkpoint(checkpoints, 1);
  const std::vector<std::byte> image = state_image({{"fc", {{"w", state({10'000}, 1)}}}});
  for (const rlim_t limit : {0, 1, 4'096, 70'000})
    EXPECT_EQ(with_file_limit(limit,
                              [&] {
                                try {
                                  static_cast<void>(write_state(folder, "rank-000000.h5", image));
                                } catch (const Error& error) {
                                  const std::string message = error.what();
                                  std::cout << message << std::endl;
                                  const std::string bytes = text("cannot write ", image.size(), " bytes");
                                  const bool clear = message.find(folder + "/rank-000000.h5") != std::string::npos &&
                                                     message.find(bytes) != std::string::npos &&
                                                     error.exit_code() == ExitCode::runtime_fault;
                                  exit(clear ? 42 : 43);
                                }
                              }),
              42)
        << "limit " << limit;
  EXPECT_EQ(fs::is_empty(folder), true);
  EXPECT_EQ(with_file_limit(1'000, [&] { write_manifest(folder, sample_manifest(2)); }), 1);
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_EQ(find_newest(checkpoints).manifest, older);
}

TEST(Checkpoint, where_no_folder_can_be_made_is_a_runtime_fault) {
  const ScratchFolder scratch;
  set_bytes(scratch.file("file"), "x");
  for (const std::string& folder : {scratch.file("file/c"), std::string("/proc/c")})
    expect_error(ExitCode::runtime_fault, folder,
                 [&] { static_cast<void>(write_state(folder, "a.h5", state_image({}))); });
}

TEST(KilledWriter, leaves_a_checkpoint_that_verifies_and_never_a_wrong_one) {
  const ScratchFolder scratch;
  const std::string checkpoints = scratch.file("c");
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto states_of = [](std::int64_t step) {
    return LayerStates{{"fc", {{"w", state({5'000}, static_cast<float>(step))}}}};
  };
  for (int round = 0; round < 10 * rounds(); ++round) {
    fs::remove_all(checkpoints);
    const std::int64_t whole = steps_until_killed(random, [&](std::int64_t step) {
      if (step > 1) prune_checkpoints(checkpoints, step - 1, 1);
      CheckpointManifest manifest = sample_manifest(step);
      const std::string folder = checkpoint_folder(checkpoints, step);
      manifest.files = {write_states(folder, 0, states_of(step)), write_states(folder, 1, {})};
      write_manifest(folder, manifest);
    });
    const Found found = find_newest(checkpoints);
    EXPECT_TRUE(found.passed_over.empty()) << "seed " << seed << ", round " << round << ": " << found.passed_over[0];
    for (const std::int64_t step : checkpoint_steps(checkpoints))  // also one that was being removed
      EXPECT_NO_THROW(static_cast<void>(verified_manifest(checkpoint_folder(checkpoints, step))));
    const std::int64_t step = found.manifest ? found.manifest->step : 0;
    EXPECT_GE(step, whole) << "seed " << seed << ", round " << round;
    EXPECT_LE(step, whole + 1) << "seed " << seed << ", round " << round;
    if (step == 0) continue;
    EXPECT_EQ(read_state(checkpoint_folder(checkpoints, step) + "/rank-000000.h5"), states_of(step));
  }
}

}  // namespace
}  // namespace sluice
