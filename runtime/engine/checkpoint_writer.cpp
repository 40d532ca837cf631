#include "runtime/engine/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/log.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr double kUnknown = -std::numeric_limits<double>::infinity();
constexpr std::size_t kNotesOfRank = 4;

std::vector<std::string> names_of(const std::vector<LayerId>& layers, const Model& model) {
  std::vector<std::string> names;
  for (const LayerId layer : layers) names.push_back(model.layers[at(layer)].name);
  return names;
}

/// What is not tidied up is in nobody's way.
template <typename Action>
void or_warn(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    log_line(text("warning: ", error.what()));
  }
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

CheckpointWriter::CheckpointWriter(const Plan& plan, Communicator& comm, Executor& executor, const StepClock& clock,
                                   std::string folder, int keep, std::int64_t newest)
    : plan_(plan),
      comm_(comm),
      executor_(executor),
      clock_(clock),
      folder_(std::move(folder)),
      keep_(keep),
      newest_(newest) {
  on_rank_zero(comm, [&] {
    for (const std::string& aside : clear_later_checkpoints(folder_, newest_))
      log_line(text("what was passed over is ", aside, " now: remove it if it is of no use"));
    prune_checkpoints(folder_, newest_, keep_);
  });
}

void CheckpointWriter::start(CheckpointManifest manifest) {
  underway_.emplace();
  underway_->begin_ns = clock_.now_ns();
  try {
    if (const LayerStates states = executor_.state(); !states.empty())
      underway_->file = std::async(std::launch::async, [image = state_image(states), name = state_name(comm_.rank()),
                                                        folder = checkpoint_folder(folder_, manifest.step)] {
        return write_state(folder, name, image);
      });
  } catch (const std::exception& error) {  // no memory for the copy, or no thread
    underway_->failure = error.what();
  }
  underway_->manifest = std::move(manifest);
  underway_->snapshot_s = seconds(clock_.now_ns() - underway_->begin_ns);
}

void CheckpointWriter::poll() {
  std::future<StateFile>& file = underway_->file;
  if (!file.valid() || file.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
  try {
    underway_->written = file.get();
  } catch (const std::exception& error) {
    underway_->failure = error.what();
  }
}

CheckpointWriter::FileNotes CheckpointWriter::own_notes() const {
  if (!underway_->failure.empty()) return {.snapshot_s = underway_->snapshot_s, .bytes = -1};
  const StateFile file = underway_->written.value_or(StateFile{});
  return {.snapshot_s = underway_->snapshot_s,
          .bytes = static_cast<double>(file.bytes),
          .high = static_cast<double>(file.checksum >> 32),
          .low = static_cast<double>(file.checksum & 0xffffffff)};
}

std::vector<double> CheckpointWriter::notes() {
  if (!underway_) return {};
  poll();
  std::vector<double> notes(at(comm_.size()) * kNotesOfRank, kUnknown);
  if (underway_->file.valid()) return notes;
  const FileNotes own = own_notes();
  const double values[kNotesOfRank] = {own.snapshot_s, own.bytes, own.high, own.low};
  std::copy(std::begin(values), std::end(values), notes.begin() + std::ptrdiff_t{comm_.rank()} * kNotesOfRank);
  return notes;
}

std::optional<CheckpointRecord> CheckpointWriter::hear(std::span<const double> notes) {
  if (!underway_) return std::nullopt;
  CheckpointRecord record{.step = underway_->manifest.step};
  std::vector<FileNotes> files;
  for (auto note = notes.begin(); note != notes.end(); note += kNotesOfRank) {
    if (note[0] == kUnknown) return std::nullopt;
    files.push_back({.snapshot_s = note[0], .bytes = note[1], .high = note[2], .low = note[3]});
    record.snapshot_s = std::max(record.snapshot_s, files.back().snapshot_s);
    record.bytes += static_cast<std::int64_t>(std::max(0.0, files.back().bytes));
  }
  const std::string failure = first_failure(files);
  if (comm_.rank() == 0) record.written = conclude(files, failure);
  // Another rank's snapshot, begun earlier, may have taken longer than all of it took here.
  record.write_s = std::max(0.0, seconds(clock_.now_ns() - underway_->begin_ns) - record.snapshot_s);
  underway_.reset();
  return record;
}

std::string CheckpointWriter::first_failure(const std::vector<FileNotes>& files) {
  const auto failed = std::find_if(files.begin(), files.end(), [](const FileNotes& file) { return file.bytes < 0; });
  if (failed == files.end()) return {};
  const auto rank = static_cast<Rank>(failed - files.begin());
  return text(comm_.describe(rank), ": ", comm_.broadcast(underway_->failure, rank));
}

bool CheckpointWriter::conclude(const std::vector<FileNotes>& files, const std::string& failure) {
  const std::int64_t step = underway_->manifest.step;
  const std::string folder = checkpoint_folder(folder_, step);
  try {
    if (!failure.empty()) throw runtime_fault(failure);
    write_manifest(folder, with_files(files));
  } catch (const std::exception& error) {
    log_line(text("warning: there is no checkpoint of step ", step, ": ", error.what(), "; training goes on, ",
                  newest_ > 0 ? text("the one of step ", newest_, " stands") : "there is none yet"));
    or_warn([&] { remove_checkpoint(folder); });
    return false;
  }
  newest_ = step;
  or_warn([&] { prune_checkpoints(folder_, newest_, keep_); });
  return true;
}

CheckpointManifest CheckpointWriter::with_files(const std::vector<FileNotes>& files) const {
  CheckpointManifest manifest = underway_->manifest;
  for (Rank rank = 0; rank < std::ssize(files); ++rank) {
    const std::vector<std::string> layers = names_of(saved_layers(plan_, rank), plan_.profile.model);
    if (layers.empty()) continue;
    const FileNotes& notes = files[at(rank)];
    const StateFile file{
        .name = state_name(rank),
        .bytes = static_cast<std::int64_t>(notes.bytes),
        .checksum = static_cast<std::uint64_t>(notes.high) << 32 | static_cast<std::uint64_t>(notes.low),
        .layers = layers};
    const fs::path path = fs::path(checkpoint_folder(folder_, manifest.step)) / file.name;
    std::error_code missing;
    if (fs::file_size(path, missing) != static_cast<std::uintmax_t>(file.bytes) || missing)
      throw runtime_fault(text(path.string(), ", which ", comm_.describe(rank),
                               " wrote, is not there for rank 0: name a folder that all nodes share"));
    manifest.files.push_back(file);
  }
  return manifest;
}

}  // namespace sluice
