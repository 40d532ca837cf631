#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/storage/checkpoint_files.h"
#include "runtime/engine/checkpoint_writer.h"
#include "runtime/engine/recorder.h"
#include "runtime/engine/stop_request.h"

namespace sluice {

struct CheckpointSettings {
  std::string folder = {};       ///< of all checkpoints
  std::int64_t every_steps = 0;  ///< at each multiple of it; 0: not by steps
  double every_s = 0;            ///< since the last one; 0: not by time
  int keep = 2;
  [[nodiscard]] bool regular() const { return every_steps > 0 || every_s > 0; }
};

/// When checkpoints are taken, and when training stops on request: all ranks decide the same at the same step, from
/// what they have told each other with the losses.
class Checkpointer {
 public:
  /// All must outlive it. Collective.
  /// @param conditions  of the run: all of a manifest but step, epoch and files
  /// @param first_step  steps done before the run: it goes on from the checkpoint of that step, or begins anew with 0
  /// @throws AgreedError like CheckpointWriter
  Checkpointer(const Plan& plan, Communicator& comm, Executor& executor, Recorder& recorder, const StepClock& clock,
               StopRequest& stop, CheckpointSettings settings, CheckpointManifest conditions, std::int64_t first_step);

  /// What this rank has to tell, for the next agreement, as many numbers at all ranks; and what that agreement made of
  /// all ranks'. Between the two no checkpoint may be taken.
  [[nodiscard]] std::vector<double> notes();
  void hear(std::span<const double> notes);
  /// Both, where no loss is there to go with. Collective.
  void exchange_notes();

  /// The signal that asked a rank to stop, 0: none.
  [[nodiscard]] int stop_signal() const { return stop_signal_; }
  /// The step after `from` at whose end a checkpoint is wanted; far away if steps do not decide it.
  [[nodiscard]] std::int64_t next_regular(std::int64_t from) const;
  /// A checkpoint is wanted as soon as can be.
  [[nodiscard]] bool time_is_up() const { return time_is_up_ && !writer_.busy(); }

  /// Takes a checkpoint after `steps` steps, if one is wanted and none is being written. The pipeline must be empty.
  void pause(std::int64_t steps);
  /// Training ends, or stops, after `steps` steps: the last checkpoint is taken, if there is none of that step, and
  /// waited for.
  void close(std::int64_t steps);

  /// CheckpointWriter::newest()
  [[nodiscard]] std::int64_t newest() const { return writer_.newest(); }

 private:
  void take(std::int64_t steps);
  void finish_writing();

  Communicator& comm_;
  Recorder& recorder_;
  const StepClock& clock_;
  StopRequest& stop_;
  CheckpointSettings settings_;
  CheckpointManifest conditions_;
  CheckpointWriter writer_;
  std::int64_t last_;  ///< step of the last one taken, whatever became of it
  std::int64_t last_ns_;
  int stop_signal_ = 0;
  bool time_is_up_ = false;
};

}  // namespace sluice
