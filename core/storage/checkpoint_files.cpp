#include "core/storage/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "core/checksum.h"
#include "core/error.h"
#include "core/storage/atomic_file.h"
#include "core/storage/checkpoint_folder.h"
#include "core/storage/in_file.h"
#include "core/text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStepPrefix = "step-";
constexpr int kStepDigits = 12;
constexpr int kRankDigits = 6;

std::string step_name(std::int64_t step) { return text(kStepPrefix, padded(step, kStepDigits)); }

/// None if a folder of this name is no checkpoint of ours.
std::optional<std::int64_t> step_of(const std::string& name) {
  const std::string digits = name.substr(std::min(name.size(), std::string(kStepPrefix).size()));
  std::int64_t step = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return step >= 0 && step_name(step) == name ? std::optional(step) : std::nullopt;
}

/// With a manifest or without, newest first.
std::vector<std::int64_t> all_steps(const std::string& checkpoints) {
  std::vector<std::int64_t> steps;
  if (!fs::exists(checkpoints)) return steps;
  std::error_code unreadable;  // then it is none: a link that leads nowhere, for instance
  for (const auto& entry : fs::directory_iterator(checkpoints))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_directory(unreadable))
      steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

/// Also its parents; each is there after a power failure.
void make_folder(const std::string& folder) {
  if (fs::is_directory(folder)) return;
  make_folder(folder_of(folder));
  fs::create_directory(folder);  // another rank may have been faster
  sync_folder(folder_of(folder));
}

void remove_manifest(const std::string& folder) {
  if (fs::remove(manifest_path(folder))) sync_folder(folder);
}

/// `name`, or the first of "name-2", "name-3", ... that is not taken.
std::string free_name(const std::string& name) {
  std::string free = name;
  for (int number = 2; fs::exists(fs::symlink_status(free)); ++number) free = text(name, '-', number);
  return free;
}

std::vector<std::byte> bytes_of(const std::string& path, std::int64_t bytes) {
  std::vector<std::byte> contents(static_cast<std::size_t>(bytes));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(contents.data()), bytes);
  if (!file) throw bad_input(text(path, ": cannot be read to its end"));
  return contents;
}

}  // namespace

std::string checkpoint_folder(const std::string& checkpoints, std::int64_t step) {
  return text(checkpoints, "/", step_name(step));
}

std::string state_name(int rank) { return text("rank-", padded(rank, kRankDigits), ".h5"); }

std::vector<std::int64_t> checkpoint_steps(const std::string& checkpoints) try {
  std::vector<std::int64_t> steps = all_steps(checkpoints);
  std::erase_if(steps, [&](std::int64_t step) { return !is_checkpoint(checkpoint_folder(checkpoints, step)); });
  return steps;
} catch (const fs::filesystem_error& error) {
  throw bad_input(text(error.path1().string(), ": cannot be read: ", error.code().message()));
}

StateFile write_state(const std::string& folder, const std::string& name, std::span<const std::byte> image) {
  as_runtime_fault(folder, [&] {
    make_folder(folder);
    remove_manifest(folder);
    remove_files(folder, [&](const std::string& other) { return other.starts_with(name + "."); });
    AtomicFile file(text(folder, "/", name));
    file.write(image);
    file.commit();
  });
  return {name, std::ssize(image), checksum(image.data(), std::ssize(image)), {}};
}

void verify_state(const std::string& folder, const StateFile& file) {
  const std::string path = text(folder, "/", file.name);
  std::error_code unreadable;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, unreadable));
  if (unreadable) throw bad_input(text(path, ": cannot be read: ", unreadable.message()));
  if (bytes != file.bytes)
    throw bad_input(text(path, ": has ", bytes, " bytes, the manifest says ", file.bytes, ": it is damaged"));
  const std::uint64_t found = checksum(bytes_of(path, bytes).data(), bytes);
  if (found != file.checksum)
    throw bad_input(text(path, ": has the checksum ", hexadecimal(found), ", the manifest says ",
                         hexadecimal(file.checksum), ": it is damaged"));
}

void require_step(const std::string& folder, const CheckpointManifest& manifest, std::int64_t step) {
  if (manifest.step != step)
    throw bad_input(text(manifest_path(folder), ": is of step ", manifest.step, ", expected ", step,
                         ": the folder was renamed, or holds a copy of another checkpoint"));
}

bool is_checkpoint(const std::string& folder) { return fs::exists(manifest_path(folder)); }

CheckpointManifest verified_manifest(const std::string& folder) {
  CheckpointManifest manifest = read_manifest(folder);
  for (const StateFile& file : manifest.files) verify_state(folder, file);
  return manifest;
}

std::optional<CheckpointManifest> newest_checkpoint(const std::string& checkpoints,
                                                    const std::function<void(const std::string&)>& pass_over) {
  for (const std::int64_t step : checkpoint_steps(checkpoints)) try {
      const std::string folder = checkpoint_folder(checkpoints, step);
      CheckpointManifest manifest = verified_manifest(folder);
      require_step(folder, manifest, step);
      return manifest;
    } catch (const Error& error) {
      pass_over(error.what());
    }
  return std::nullopt;
}

void prune_checkpoints(const std::string& checkpoints, std::int64_t newest, int keep) {
  as_runtime_fault(checkpoints, [&] {
    std::vector<std::int64_t> kept = checkpoint_steps(checkpoints);
    std::erase_if(kept, [&](std::int64_t step) { return step > newest; });
    kept.resize(std::min(kept.size(), static_cast<std::size_t>(keep)));
    for (const std::int64_t step : all_steps(checkpoints))
      if (step <= newest && std::find(kept.begin(), kept.end(), step) == kept.end())
        remove_checkpoint(checkpoint_folder(checkpoints, step));
  });
}

std::vector<std::string> clear_later_checkpoints(const std::string& checkpoints, std::int64_t newest) {
  std::vector<std::string> aside;
  as_runtime_fault(checkpoints, [&] {
    for (const std::int64_t step : all_steps(checkpoints)) {
      const std::string folder = checkpoint_folder(checkpoints, step);
      if (step <= newest) continue;
      if (!is_checkpoint(folder)) {
        remove_checkpoint(folder);
        continue;
      }
      aside.push_back(free_name(folder + ".passed-over"));
      fs::rename(folder, aside.back());
    }
  });
  return aside;
}

void remove_checkpoint(const std::string& folder) {
  as_runtime_fault(folder, [&] {
    if (fs::is_symlink(folder)) fs::remove(folder);  // what it leads to is another's
    if (!fs::is_directory(folder)) return;
    remove_manifest(folder);
    remove_files(folder, [](const std::string&) { return true; });
    if (fs::is_empty(folder)) fs::remove(folder);
  });
}

}  // namespace sluice
