#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/plan.h"
#include "runtime/comm/communicator.h"
#include "runtime/engine/data_loader.h"
#include "runtime/engine/executor.h"
#include "runtime/engine/recorder.h"

namespace sluice {

struct TrainerSettings {
  std::int64_t steps = 0;           ///< or epochs x steps per epoch
  std::int64_t evaluate_every = 0;  ///< epochs; also at the end; 0: never
  std::int64_t record_every = 10;   ///< steps whose instructions are recorded; the first and the last always are
  std::uint64_t seed = 0;
};

/// An asynchronous pipeline is filled and drained around evaluations and at the ends; between two drains it runs at
/// least as many steps as a drain finishes.
/// @throws Error (bad input) naming the options if there are fewer between two evaluations, or too many to count.
void require_long_stretches(const Plan& plan, const DataLoader& data, const TrainerSettings& settings);

struct TrainingSummary {
  float loss = 0;  ///< of the last step
  std::optional<Evaluation> evaluation;
  double step_s = 0;  ///< median over the steps, the first left out if there are more
};

/// Steps, agreement on the loss, evaluation: what happens around the programs.
class Trainer {
 public:
  Trainer(const Plan& plan, Communicator& comm, DataLoader& data, Executor& executor, Recorder& recorder,
          const StepClock& clock, const TrainerSettings& settings);

  /// Collective.
  /// @throws AgreedError (runtime fault) naming step and layer if a loss is not finite.
  [[nodiscard]] TrainingSummary train();

  /// Loss and accuracy over the test part. Collective; equal on all ranks.
  [[nodiscard]] Evaluation evaluate(std::int64_t step);

 private:
  void step(std::int64_t step);
  /// Steps [first, end) by fill, steady and drain. A step's loss is agreed on while the next one runs.
  void stretch(std::int64_t first, std::int64_t end);
  /// One program of a stretch, whose base is the batch of `step`.
  [[nodiscard]] ProgramRun run_part(const char* name, std::int64_t first, std::int64_t step, std::int64_t end);
  [[nodiscard]] std::vector<std::int64_t> rows(std::int64_t first, std::int64_t end);
  /// Records and logs. @return false if the loss is not finite
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
  const StepClock& clock_;
  TrainerSettings settings_;
  std::int64_t steps_per_epoch_;
  std::int64_t in_drain_ = 0;  ///< steps that a drain finishes; 0: the plan is synchronous
  std::int64_t behind_ = 0;    ///< steps before its base whose micro-batches a program may still name
  std::map<std::int64_t, std::vector<std::int64_t>> orders_;  ///< of samples, by epoch
  std::map<int, MicrobatchLoss> losses_;                      ///< of this rank, not agreed on yet; from the fill
  float loss_ = 0;                                            ///< of the last step
  std::vector<double> step_s_;
  std::int64_t lap_ns_ = 0;
  std::int64_t last_log_ns_ = 0;
};

}  // namespace sluice
