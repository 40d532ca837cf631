#include "core/storage/results_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/index.h"
#include "core/storage/folder_lock.h"
#include "core/storage/results_tables.h"
#include "core/text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartPrefix = "attempt-";
constexpr int kAttemptDigits = 4;
constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

/// Where parts go that are in the merged file, to be deleted.
std::string merged_folder(const std::string& path) { return parts_folder(path) + ".merged"; }

/// "<path>.parts/attempt-0000.<what>.h5": the names sort by attempt, header first.
std::string part_path(const std::string& path, int attempt, const std::string& what) {
  return text(parts_folder(path), "/", kPartPrefix, padded(attempt, kAttemptDigits), ".", what, ".h5");
}

/// "<path>" of the folder "<path>.parts"; another path is what it is.
std::string results_path(const std::string& file_or_folder) {
  const std::string ending = parts_folder("");
  std::string folder = file_or_folder;
  while (folder.ends_with('/')) folder.pop_back();
  if (!folder.ends_with(ending) || !fs::is_directory(folder)) return file_or_folder;
  return folder.substr(0, folder.size() - ending.size());
}

int attempt_number(const fs::path& part) {
  const std::string digits = part.filename().string().substr(std::string(kPartPrefix).size(), kAttemptDigits);
  if (digits.size() != kAttemptDigits || digits.find_first_not_of("0123456789") != std::string::npos)
    throw bad_input(text(part.string(), ": is not named as a part of results is"));
  return std::stoi(digits);
}

/// Whole parts, ordered by attempt; empty if there is no folder.
std::vector<fs::path> parts_of(const std::string& path) {
  std::vector<fs::path> parts;
  if (!fs::is_directory(parts_folder(path))) return parts;
  for (const auto& entry : fs::directory_iterator(parts_folder(path)))
    if (entry.path().extension() == ".h5") parts.push_back(entry.path());
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// Deletes what looks like parts, whole or not. The folder itself stays: it may be locked.
/// @throws Error (bad input) if something else is in it
void clear_parts(const std::string& folder) {
  if (!fs::is_directory(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(kPartPrefix)) fs::remove(entry.path());
  if (!fs::is_empty(folder))
    throw bad_input(text(folder, ": holds files that are no parts of results: move them away"));
}

void remove_parts(const std::string& folder) {
  clear_parts(folder);
  fs::remove(folder);
}

/// Runs `action`; what the file system refuses becomes an Error about `path`.
template <typename Action>
auto with_folder(const std::string& path, Action action) {
  try {
    return action();
  } catch (const fs::filesystem_error& error) {
    throw bad_input(text(path, ": ", error.code().message(), " (", error.path1().string(), ")"));
  }
}

/// What belongs to step `end` and later ones is not kept.
void append_before(RunTables& all, const RunTables& more, std::int64_t end) {
  const auto copy = [](auto& rows, const auto& added, std::int64_t last) {
    std::copy_if(added.begin(), added.end(), std::back_inserter(rows), [&](auto& row) { return row.step <= last; });
  };
  copy(all.steps, more.steps, end - 1);
  copy(all.ranks, more.ranks, end - 1);
  copy(all.timeline, more.timeline, end - 1);
  copy(all.evaluations, more.evaluations, end);  // one at `end` is of the steps that are kept
  copy(all.checkpoints, more.checkpoints, end);  // likewise
  all.clocks.insert(all.clocks.end(), more.clocks.begin(), more.clocks.end());
}

void sort_rows(RunTables& tables) {
  std::stable_sort(tables.steps.begin(), tables.steps.end(), [](auto& a, auto& b) { return a.step < b.step; });
  std::stable_sort(tables.ranks.begin(), tables.ranks.end(),
                   [](auto& a, auto& b) { return std::tie(a.step, a.rank) < std::tie(b.step, b.rank); });
  std::stable_sort(tables.timeline.begin(), tables.timeline.end(), [](auto& a, auto& b) {
    return std::tie(a.step, a.rank, a.instruction) < std::tie(b.step, b.rank, b.instruction);
  });
  std::stable_sort(tables.evaluations.begin(), tables.evaluations.end(),
                   [](auto& a, auto& b) { return a.step < b.step; });
  const auto same_step = [](auto& a, auto& b) { return a.step == b.step; };
  tables.evaluations.erase(std::unique(tables.evaluations.begin(), tables.evaluations.end(), same_step),
                           tables.evaluations.end());
  std::stable_sort(tables.checkpoints.begin(), tables.checkpoints.end(),
                   [](auto& a, auto& b) { return a.step < b.step; });
  std::stable_sort(tables.clocks.begin(), tables.clocks.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
}

void require_rank(const std::string& path, const char* table, Rank rank, std::size_t ranks) {
  if (rank < 0 || rank >= static_cast<Rank>(ranks))
    throw bad_input(text(path, ": /", table, "/rank: ", rank, " is not one of the ", ranks, " ranks"));
}

void validate_header(const std::string& path, const RunHeader& header) {
  const std::size_t ranks = header.plan.cluster.ranks.size();
  if (header.places.size() != ranks)
    throw bad_input(
        text(path, ": /run/places has ", header.places.size(), " rows, expected one for each of ", ranks, " ranks"));
  if (header.predicted.ranks.empty()) return;
  const Program& step = training_program(header.plan);
  if (header.predicted.ranks.size() != ranks)
    throw bad_input(text(path, ": /run/predicted is of ", header.predicted.ranks.size(), " ranks, expected ", ranks));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (header.predicted.ranks[rank].instructions.size() != step.ranks[rank].size())
      throw bad_input(text(path, ": /run/predicted/timeline has ", header.predicted.ranks[rank].instructions.size(),
                           " instructions of rank ", rank, ", its list has ", step.ranks[rank].size()));
}

/// Steps and durations are not negative, so that sums and differences of them mean something.
void validate_times(const std::string& path, const RunTables& tables) {
  const auto refuse = [&](const char* table, std::int64_t step) {
    throw bad_input(text(path, ": /", table, ": a time of step ", step, ", or the step itself, is out of range"));
  };
  const auto are_sane = [](std::initializer_list<std::int64_t> times) {
    return std::all_of(times.begin(), times.end(), [](std::int64_t t) { return t >= 0 && t <= kNoEnd / 2; });
  };
  for (const StepRecord& row : tables.steps)
    if (row.step < 0 || row.epoch < 0 || row.duration_s < 0) refuse("steps", row.step);
  for (const RankStep& row : tables.ranks)
    if (row.step < 0 || !are_sane({row.duration_ns, row.compute_ns, row.update_ns, row.load_ns, row.communication_ns,
                                   row.wait_ns, row.sent_bytes[0], row.sent_bytes[1], row.received_bytes[0],
                                   row.received_bytes[1], row.peak_memory_bytes}))
      refuse("ranks", row.step);
  for (const InstructionRecord& row : tables.timeline)
    if (row.step < 0 || !are_sane({row.time.start_ns, row.time.end_ns, row.time.sent_bytes[0], row.time.sent_bytes[1]}))
      refuse("timeline", row.step);
  for (const CheckpointRecord& row : tables.checkpoints)
    if (row.step < 0 || row.snapshot_s < 0 || row.write_s < 0 || !are_sane({row.bytes}))
      refuse("checkpoints", row.step);
}

/// Rows must name ranks and instructions of the header's plan.
void validate_rows(const std::string& path, const RunHeader& header, const RunTables& tables) {
  const std::size_t ranks = header.plan.cluster.ranks.size();
  validate_times(path, tables);
  for (const RankStep& row : tables.ranks) require_rank(path, "ranks", row.rank, ranks);
  for (const ClockOffset& row : tables.clocks) require_rank(path, "clocks", row.rank, ranks);
  if (tables.timeline.empty()) return;
  const Program& step = training_program(header.plan);
  for (const InstructionRecord& row : tables.timeline) {
    require_rank(path, "timeline", row.rank, ranks);
    const auto& list = step.ranks[at(row.rank)];
    if (row.instruction < 0 || row.instruction >= std::ssize(list))
      throw bad_input(text(path, ": /timeline/instruction: ", row.instruction, " is not one of the ", list.size(),
                           " of rank ", row.rank));
  }
}

/// All rows of one attempt.
struct Attempt {
  std::string path;  ///< of its header
  RunHeader header;
  RunTables tables;
  std::vector<RunAttempt> attempts;  ///< several if it was a merged file
};

std::vector<Attempt> read_attempts(const std::vector<fs::path>& parts) {
  std::vector<Attempt> attempts;
  int number = -1;
  for (const fs::path& part : parts) {
    ResultsContents contents = read_results_file(part);
    if (attempt_number(part) != number) {
      if (!contents.header) throw bad_input(text(part.string(), ": the header of its attempt is missing"));
      validate_header(part, *contents.header);
      attempts.push_back({part, std::move(*contents.header), {}, std::move(contents.attempts)});
      number = attempt_number(part);
    }
    validate_rows(part, attempts.back().header, contents.tables);
    append_before(attempts.back().tables, contents.tables, kNoEnd);
  }
  return attempts;
}

/// Of attempts with another plan only what does not depend on the plan is kept.
RunResults joined(std::vector<Attempt> attempts) {
  RunResults results;
  results.header = attempts.back().header;
  results.header.first_step = attempts.front().header.first_step;
  results.tables.clocks = attempts.back().tables.clocks;
  for (const Attempt& attempt : attempts)
    results.attempts.insert(results.attempts.end(), attempt.attempts.begin(), attempt.attempts.end());
  std::int64_t end = kNoEnd;
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    attempt->tables.clocks.clear();
    if (digest(attempt->header.plan) != digest(results.header.plan)) {
      attempt->tables.ranks.clear();
      attempt->tables.timeline.clear();
    }
    append_before(results.tables, attempt->tables, end);
    end = std::min(end, attempt->header.first_step);
  }
  sort_rows(results.tables);
  return results;
}

RunResults read_merged(const std::string& path) {
  ResultsContents contents = read_results_file(path);
  if (!contents.header) throw bad_input(text(path, ": /run is missing: this is a part, name the results themselves"));
  validate_header(path, *contents.header);
  validate_rows(path, *contents.header, contents.tables);
  sort_rows(contents.tables);
  return {std::move(*contents.header), std::move(contents.tables), std::move(contents.attempts), true};
}

/// The number of the next attempt; a merged file becomes a part again.
int continue_record(const std::string& path) {
  if (parts_of(path).empty() && fs::exists(path)) {
    static_cast<void>(read_merged(path));
    fs::create_directory(parts_folder(path));
    fs::rename(path, part_path(path, 0, "header"));
  }
  const std::vector<fs::path> parts = parts_of(path);
  return parts.empty() ? 0 : attempt_number(parts.back()) + 1;
}

}  // namespace

std::string parts_folder(const std::string& path) { return path + ".parts"; }

bool has_parts(const std::string& path) { return !parts_of(path).empty(); }

int begin_results(const std::string& path, const RunHeader& header, bool resume) {
  check_writable(path, kResultsSchema);
  return with_folder(path, [&] {
    remove_parts(merged_folder(path));
    if (!resume) clear_parts(parts_folder(path));
    const int attempt = resume ? continue_record(path) : 0;
    fs::create_directory(parts_folder(path));
    write_results_file(part_path(path, attempt, "header"), &header, {attempt_of(header)}, {});
    return attempt;
  });
}

ResultsWriter::ResultsWriter(const std::string& path, Rank rank, int attempt)
    : path_(path), rank_(rank), attempt_(attempt) {}

void ResultsWriter::add_timeline(std::int64_t step, const RankTimeline& timeline) {
  append_records(rows_.timeline, step, rank_, timeline);
}

void ResultsWriter::flush() {
  if (rows_ == RunTables{}) return;
  // "header" sorts before "rank-...".
  const std::string what = text("rank-", padded(rank_, 6), ".part-", padded(part_, 6));
  write_results_file(part_path(path_, attempt_, what), nullptr, {}, rows_);
  rows_ = {};
  ++part_;
}

RunResults read_results(const std::string& file_or_folder) {
  const std::string path = results_path(file_or_folder);
  return with_folder(path, [&] {
    const std::vector<fs::path> parts = parts_of(path);
    try {
      return parts.empty() ? read_merged(path) : joined(read_attempts(parts));
    } catch (const Error&) {
      // The run may have ended, and its parts been merged, while they were read.
      if (parts.empty() || fs::exists(parts_folder(path))) throw;
      return read_merged(path);
    }
  });
}

void merge_results(const std::string& path) {
  with_folder(path, [&] {
    const std::vector<fs::path> parts = parts_of(path);
    if (parts.empty()) return;
    const RunResults results = joined(read_attempts(parts));
    write_results_file(path, &results.header, results.attempts, results.tables);
    // Renamed first, so that a reader finds all parts or none.
    remove_parts(merged_folder(path));
    fs::rename(parts_folder(path), merged_folder(path));
    remove_parts(merged_folder(path));
  });
}

bool merge_ended_run(const std::string& file_or_folder) {
  const std::string path = results_path(file_or_folder);
  if (!fs::is_directory(parts_folder(path))) return false;
  const FolderLock lock(parts_folder(path));
  if (parts_of(path).empty()) return false;
  merge_results(path);
  return true;
}

}  // namespace sluice
