#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/storage/record_lock.h"
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

  /// Begins a fresh record at `path`. Collective.
  /// @param header  rank 0's counts; its `places` are gathered here
  /// @param clock   must outlive it
  /// @throws AgreedError if the record cannot be begun, or another run is writing it
  Recorder(Communicator& comm, const StepClock& clock, const std::string& path, RunHeader header);

  /// What this rank did in a step: one run of the plan's program "step" or "steady".
  /// @param timeline  also record each instruction's times
  void add_run(std::int64_t step, const Program& program, const ProgramRun& run, bool timeline);
  void add(const StepRecord& step);
  void add(const Evaluation& evaluation);

  void flush();

  /// All is written and merged into one file. Collective.
  /// @throws AgreedError if that fails; the parts then stay.
  void finish();

 private:
  [[nodiscard]] int begin(RunHeader header);

  Communicator& comm_;
  const StepClock& clock_;
  std::string path_;
  std::unique_ptr<RecordLock> lock_;  ///< on rank 0
  ResultsWriter writer_;
  std::int64_t last_flush_ns_ = 0;
};

/// What one step took on a rank, summed by kind of instruction.
[[nodiscard]] RankStep rank_totals(const Program& program, Rank rank, std::int64_t step, const ProgramRun& run);

}  // namespace sluice
