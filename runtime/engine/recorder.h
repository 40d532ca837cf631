#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/storage/folder_lock.h"
#include "core/storage/results_file.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/clock.h"
#include "runtime/engine/executor.h"

namespace sluice {

/// Writes the record of a run as it goes: rank 0 the losses, every rank its
/// totals of each step and, of some, the times of all instructions. What has been
/// added is on disk at the latest `kFlushInterval` later.
class Recorder {
 public:
  static constexpr std::chrono::seconds kFlushInterval{10};

  /// Begins a record at `path`, or goes on with the one that is there. Collective.
  /// @param header  rank 0's counts; its `places` are gathered here
  /// @param clock   must outlive it
  /// @param resume  a record of the same training is gone on with, as another attempt, if it is there. After the first
  ///   step another training's is refused; before it, it is replaced, as without `resume`
  /// @throws AgreedError if the record cannot be begun or read, is another training's, or another run is writing it
  Recorder(Communicator& comm, const StepClock& clock, const std::string& path, RunHeader header, bool resume = false);

  /// What this rank did in a step: one run of the plan's program "step" or "steady".
  /// @param timeline  also record each instruction's times
  void add_run(std::int64_t step, const Program& program, const ProgramRun& run, bool timeline);
  void add(const StepRecord& step);
  void add(const Evaluation& evaluation);
  void add(const CheckpointRecord& checkpoint);

  /// The evaluation that earlier attempts recorded after the steps that the header begins with.
  [[nodiscard]] const std::optional<Evaluation>& earlier_evaluation() const { return earlier_evaluation_; }

  /// Where it cannot be written (a full disk), a warning says so once, and the rows wait for the next time.
  void flush();

  /// All is written and merged into one file. Collective.
  /// @throws AgreedError if that fails; the parts then stay.
  void finish();

 private:
  [[nodiscard]] int begin(RunHeader header, bool resume);

  Communicator& comm_;
  const StepClock& clock_;
  std::string path_;
  std::unique_ptr<FolderLock> lock_;  ///< on rank 0
  std::optional<Evaluation> earlier_evaluation_;
  ResultsWriter writer_;
  std::int64_t last_flush_ns_ = 0;
  bool warned_ = false;
};

/// What one step took on a rank, summed by kind of instruction.
[[nodiscard]] RankStep rank_totals(const Program& program, Rank rank, std::int64_t step, const ProgramRun& run);

}  // namespace sluice
