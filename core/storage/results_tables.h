#pragma once

#include <optional>

#include "core/storage/reader.h"
#include "core/storage/results_file.h"
#include "core/storage/writer.h"

/// One file of a run's record: a part or the merged file.
namespace sluice {

/// What one file of a record holds. A part without header only adds rows.
struct ResultsContents {
  std::optional<RunHeader> header;
  std::vector<RunAttempt> attempts;  ///< with a header: at least the one that it is of
  RunTables tables;
};

/// Adds one row for each instruction of a rank's timeline.
void append_records(std::vector<InstructionRecord>& rows, std::int64_t step, Rank rank, const RankTimeline& timeline);

/// What a header says about its attempt.
[[nodiscard]] RunAttempt attempt_of(const RunHeader& header);

/// @param header    null: a part that only adds rows
/// @param attempts  with a header: the last of them is the header's
void write_results_file(const std::string& path, const RunHeader* header, const std::vector<RunAttempt>& attempts,
                        const RunTables& tables);

/// @throws Error (bad input) naming file, dataset and value
[[nodiscard]] ResultsContents read_results_file(const std::string& path);

}  // namespace sluice
