#pragma once

#include <cstdint>
#include <optional>

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
  [[nodiscard]] float step(std::int64_t step);
  void begin_step_batch(std::int64_t step);
  [[nodiscard]] bool records(std::int64_t step) const;
  [[nodiscard]] bool evaluates_after(std::int64_t step) const;
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
  std::int64_t epoch_ = -1;  ///< whose order is in `order_`
  std::vector<std::int64_t> order_;
  std::vector<double> step_s_;
  std::int64_t last_log_ns_ = 0;
};

}  // namespace sluice
