#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/storage/writer.h"
#include "core/timeline.h"

/// The record of a run, schema sluice/results.
///
/// While a run lasts, its record is the folder "<path>.parts" of files that
/// never change: each rank writes its own, so nothing is gathered and a kill
/// loses at most the part being written. At the end they are
/// merged into one file at <path>. Readers take both.
///
/// A restart is a new attempt that adds parts. What earlier attempts recorded
/// of its first step and later steps is dropped when the record is read; of
/// attempts with another plan only losses and evaluations are kept.
namespace sluice {

/// Where a rank ran.
struct RankPlace {
  std::string host;
  int cores = 0;  ///< that the host offers to the job; 0 if unknown
  bool operator==(const RankPlace&) const = default;
};

/// What is known when a run, or a restart of it, begins.
struct RunHeader {
  Plan plan;
  Timeline predicted;  ///< of program "step" (asynchronous: "steady"), one list per rank; no ranks if there is none
  std::vector<RankPlace> places;  ///< one per rank
  std::int64_t seed = 0;
  int threads = 1;      ///< per rank
  std::string device;   ///< fingerprint, as in Profile
  std::string started;  ///< ISO 8601 with zone
  std::string command_line;
  std::map<std::string, std::string> settings;  ///< learning rate and other resolved options
  std::int64_t first_step = 0;                  ///< above 0 after a restart
  std::string job = {};                         ///< Slurm's number of the job; empty outside of Slurm
  bool operator==(const RunHeader&) const = default;
};

/// A step as the rank saw it that is told the loss.
struct StepRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  float loss = 0;         ///< mean over the global batch; may be not finite in a run that failed
  double duration_s = 0;  ///< from this step's begin to the next one's
  bool operator==(const StepRecord&) const = default;
};

/// Totals of a step on one rank.
struct RankStep {
  std::int64_t step = 0;
  Rank rank = 0;
  std::int64_t start_ns = 0;  ///< on the rank's steady clock
  std::int64_t duration_ns = 0;
  std::int64_t compute_ns = 0;        ///< in forward and backward works
  std::int64_t update_ns = 0;         ///< in optimizer steps
  std::int64_t load_ns = 0;           ///< in loads of images and labels
  std::int64_t communication_ns = 0;  ///< in starts of collectives
  std::int64_t wait_ns = 0;           ///< in waits for collectives
  LinkBytes sent_bytes{};
  LinkBytes received_bytes{};
  std::int64_t peak_memory_bytes = 0;
  bool operator==(const RankStep&) const = default;
};

/// One instruction of program "step" or "steady" on a rank, in a step that was recorded.
struct InstructionRecord {
  std::int64_t step = 0;
  Rank rank = 0;
  int instruction = 0;  ///< position in the rank's list
  InstructionTime time;
  bool operator==(const InstructionRecord&) const = default;
};

struct Evaluation {
  std::int64_t step = 0;  ///< steps done before it
  double loss = 0;        ///< mean over the samples
  double accuracy = 0;    ///< 0 to 1
  std::int64_t samples = 0;
  bool operator==(const Evaluation&) const = default;
};

/// Added to the rank's steady clock, `offset_ns` gives that of rank 0.
struct ClockOffset {
  Rank rank = 0;
  std::int64_t offset_ns = 0;
  std::int64_t uncertainty_ns = 0;
  bool operator==(const ClockOffset&) const = default;
};

/// A start of the run: the first one, and each restart from a checkpoint.
struct RunAttempt {
  std::int64_t first_step = 0;  ///< steps done before it
  std::string started;          ///< ISO 8601 with zone
  std::string schedule;
  int ranks = 0;
  std::string job;  ///< Slurm's, "1234"; empty outside of Slurm
  bool operator==(const RunAttempt&) const = default;
};

/// A checkpoint that a run wrote, or could not write.
struct CheckpointRecord {
  std::int64_t step = 0;   ///< steps done before it
  double snapshot_s = 0;   ///< for which training stood still, on the slowest rank
  double write_s = 0;      ///< from then until it was whole on disk, beside training
  std::int64_t bytes = 0;  ///< of all ranks' files
  bool written = false;    ///< false: failed, for instance on a full disk
  bool operator==(const CheckpointRecord&) const = default;
};

/// The rows of a record; ordered by step, rank and instruction when read.
struct RunTables {
  std::vector<StepRecord> steps;
  std::vector<RankStep> ranks;
  std::vector<InstructionRecord> timeline;
  std::vector<Evaluation> evaluations;
  std::vector<ClockOffset> clocks;
  std::vector<CheckpointRecord> checkpoints;
  bool operator==(const RunTables&) const = default;
};

struct RunResults {
  RunHeader header;  ///< of the last attempt, with the first step of the first one
  RunTables tables;
  std::vector<RunAttempt> attempts;  ///< in their order
  bool merged = false;               ///< false: read from parts, of a run that lasts or was killed
  bool operator==(const RunResults&) const = default;
};

/// "<path>.parts"
[[nodiscard]] std::string parts_folder(const std::string& path);

/// Whether there are parts to read: what a killed writer left unfinished is none.
[[nodiscard]] bool has_parts(const std::string& path);

/// To be called by one rank before any ResultsWriter is made. A fresh run
/// deletes parts that an earlier run left; a merged file at `path` stays until
/// this run's merge replaces it. With `resume`, parts or a merged file are continued.
/// @return the number of the attempt, for every rank's ResultsWriter
/// @throws Error (bad input) if the folder cannot be written or holds foreign files
[[nodiscard]] int begin_results(const std::string& path, const RunHeader& header, bool resume = false);

/// One rank's record. Rows are kept in memory until flush().
class ResultsWriter {
 public:
  ResultsWriter(const std::string& path, Rank rank, int attempt = 0);

  void add(const StepRecord& step) { rows_.steps.push_back(step); }
  void add(const RankStep& step) { rows_.ranks.push_back(step); }
  void add(const Evaluation& evaluation) { rows_.evaluations.push_back(evaluation); }
  void add(const ClockOffset& clock) { rows_.clocks.push_back(clock); }
  void add(const CheckpointRecord& checkpoint) { rows_.checkpoints.push_back(checkpoint); }
  /// The instructions of one recorded step on this rank.
  void add_timeline(std::int64_t step, const RankTimeline& timeline);

  /// Writes the rows added since the last flush as one part, if there are any.
  /// @throws Error (runtime fault), for instance when the disk is full
  void flush();

 private:
  std::string path_;
  Rank rank_;
  int attempt_;
  int part_ = 0;
  RunTables rows_;
};

/// Reads the parts if there are any, else the merged file. `path` may also be the folder of parts.
/// @throws Error (bad input) naming file, dataset and value
[[nodiscard]] RunResults read_results(const std::string& path);

/// Writes the merged file, then deletes the parts. Without parts nothing is done.
/// All ranks must have flushed.
void merge_results(const std::string& path);

/// Merges the parts that a run left behind that was killed or stopped.
/// @return whether there were any
/// @throws Error (bad input) while a run writes them
bool merge_ended_run(const std::string& file_or_folder);

}  // namespace sluice
