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
  RunTables tables;
};

/// Adds one row for each instruction of a rank's timeline.
void append_records(std::vector<InstructionRecord>& rows, std::int64_t step, Rank rank, const RankTimeline& timeline);

/// @param header  null: a part that only adds rows
void write_results_file(const std::string& path, const RunHeader* header, const RunTables& tables);

/// @throws Error (bad input) naming file, dataset and value
[[nodiscard]] ResultsContents read_results_file(const std::string& path);

}  // namespace sluice
