#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/checkpointer.h"
#include "runtime/engine/data_loader.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/recorder.h"

namespace sluice {

struct TrainerSettings {
  std::int64_t steps = 0;           ///< in all, those before first_step among them; or epochs x steps per epoch
  std::int64_t first_step = 0;      ///< steps done before this run
  std::int64_t evaluate_every = 0;  ///< epochs; also at the end; 0: never
  std::int64_t record_every = 10;   ///< steps whose instructions are recorded; the first and the last always are
  std::uint64_t seed = 0;
};

/// An asynchronous pipeline is filled and drained around evaluations and at the ends; between two drains it runs at
/// least as many steps as a drain finishes.
/// @throws Error (bad input) naming the options if there are fewer between two evaluations, or too many to count.
void require_long_stretches(const Plan& plan, const DataLoader& data, const TrainerSettings& settings);

struct TrainingSummary {
  std::int64_t steps = 0;     ///< done, in all
  int stop_signal = 0;        ///< that ended training before all were done; 0: none
  std::optional<float> loss;  ///< of the last step, if there was one
  std::optional<Evaluation> evaluation;
  std::optional<double> step_s;  ///< median over the steps, the first left out if there are more
};

/// Steps, agreement on the loss, evaluation, checkpoints: what happens around the programs.
class Trainer {
 public:
  Trainer(const Plan& plan, Communicator& comm, DataLoader& data, Executor& executor, Recorder& recorder,
          Checkpointer& checkpointer, const StepClock& clock, const TrainerSettings& settings);

  /// Collective.
  /// @throws AgreedError (runtime fault) naming step and layer if a loss is not finite.
  [[nodiscard]] TrainingSummary train();

 private:
  /// Steps from `first` on, until the pipeline is empty. @return the step after them
  [[nodiscard]] std::int64_t run_from(std::int64_t first);
  void step(std::int64_t step);
  /// Steps by fill, steady and drain. A step's loss is agreed on while the next one runs. @return their end
  [[nodiscard]] std::int64_t stretch(std::int64_t first);
  /// Whether the stretch from `first` on drains where step `s` would be next.
  [[nodiscard]] bool drains_at(std::int64_t first, std::int64_t s) const;
  /// One program of a stretch, whose base is the batch of `step`.
  [[nodiscard]] ProgramRun run_part(const char* name, std::int64_t first, std::int64_t step);
  /// What is due after `steps` steps, with the pipeline empty.
  void pause(std::int64_t steps);
  [[nodiscard]] bool evaluates_after(std::int64_t steps) const;
  /// Loss and accuracy over the test part, equal on all ranks; none if a rank is asked to stop meanwhile.
  [[nodiscard]] std::optional<Evaluation> evaluate(std::int64_t steps);
  [[nodiscard]] std::vector<std::int64_t> rows(std::int64_t first, std::int64_t end);
  /// Records and logs, and hears what else the ranks say. @return false if the loss is not finite
  [[nodiscard]] bool conclude(std::int64_t step, const BatchLoss& loss, double duration_s);
  [[nodiscard]] double lap();  ///< seconds since the last one
  [[nodiscard]] bool records(std::int64_t step) const;
  [[noreturn]] void report_not_finite(std::int64_t step);
  void log_progress(std::int64_t step, float loss);

  const Plan& plan_;
  Communicator& comm_;
  DataLoader& data_;
  Executor& executor_;
  Recorder& recorder_;
  Checkpointer& checkpointer_;
  const StepClock& clock_;
  TrainerSettings settings_;
  std::int64_t steps_per_epoch_;
  std::int64_t evaluation_period_;  ///< steps; 0: there are no evaluations
  std::int64_t in_drain_ = 0;       ///< steps that a drain finishes; 0: the plan is synchronous
  std::int64_t behind_ = 0;         ///< steps before its base whose micro-batches a program may still name
  std::map<std::int64_t, std::vector<std::int64_t>> orders_;  ///< of samples, by epoch
  std::map<int, MicrobatchLoss> losses_;                      ///< of this rank, not agreed on yet; from the fill
  TrainingSummary summary_;
  std::vector<double> step_s_;
  std::int64_t lap_ns_ = 0;
  std::int64_t last_log_ns_ = 0;
};

}  // namespace sluice
