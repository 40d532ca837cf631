#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "core/prediction.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/resume.h"
#include "runtime/engine/trainer.h"
#include "tests/mpi/engine/equality.h"

namespace sluice {

/// All that training has come to.
struct TrainingState {
  std::vector<StepRecord> steps;  ///< without durations
  std::vector<Evaluation> evaluations;
  LayerStates layers;  ///< of the last checkpoint
  bool operator==(const TrainingState&) const = default;
};

/// Whole training runs with record and checkpoints, in one folder, under mpiexec.
class TrainingRuns : public Equality {
 protected:
  TrainingRuns() {
    folder_ = world_.broadcast(text("/tmp/sluice-training-", getpid()));
    clear();
  }
  ~TrainingRuns() override {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }

  /// An empty folder.
  void clear() {
    world_.barrier();
    if (world_.rank() == 0) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directory(folder_);
    }
    world_.barrier();
  }

  /// What the command `train` does; goes on from the newest checkpoint, if there is one.
  TrainingSummary run(const Plan& plan, TrainerSettings settings, CheckpointSettings checkpoints,
                      Device* device = nullptr) {
    EXPECT_FALSE(verify(plan)) << to_string(*verify(plan));
    StopRequest stop;
    const StepClock clock;
    const std::unique_ptr<DataLoader> data = open(data_, plan);
    checkpoints.folder = file("checkpoints");
    settings.seed = 1;
    const std::optional<CheckpointManifest> from = agree_on_checkpoint(world_, checkpoints.folder);
    if (from) settings.first_step = from->step;
    require_long_stretches(plan, *data, settings);
    Executor executor(plan, device == nullptr ? *host_ : *device, world_, *data, clock,
                      {settings.seed, task(plan.microbatches).sgd});
    if (from)
      load_checkpoint(world_, executor, checkpoint_folder(checkpoints.folder, from->step), *from);
    else
      executor.initialise();
    RunHeader header;
    header.plan = plan;
    header.predicted = predict_step(plan).timeline;
    header.first_step = settings.first_step;
    Recorder recorder(world_, clock, file("results.h5"), header, true);
    CheckpointManifest conditions;
    conditions.samples = data->samples(Split::train);
    conditions.microbatch = plan.profile.model.microbatch;
    conditions.microbatches = plan.microbatches;
    conditions.threads = 1;
    conditions.ranks = world_.size();
    Checkpointer checkpointer(plan, world_, executor, recorder, clock, stop, checkpoints, conditions,
                              settings.first_step);
    Trainer trainer(plan, world_, *data, executor, recorder, checkpointer, clock, settings);
    before_training_();
    const TrainingSummary summary = trainer.train();
    after_training_();
    if (summary.stop_signal == 0)
      recorder.finish();
    else
      recorder.flush();
    world_.barrier();
    return summary;
  }

  /// On rank 0: of the record and the newest checkpoint.
  [[nodiscard]] TrainingState state() const {
    TrainingState state;
    if (world_.rank() != 0) return state;
    const RunTables tables = read_results(file("results.h5")).tables;
    for (StepRecord step : tables.steps) {
      step.duration_s = 0;
      state.steps.push_back(step);
    }
    state.evaluations = tables.evaluations;
    const std::string newest = checkpoint_folder(file("checkpoints"), steps_of_checkpoints().at(0));
    for (const StateFile& part : read_manifest(newest).files) state.layers.merge(read_state(newest + "/" + part.name));
    return state;
  }

  void expect_state(const TrainingState& expected) const {
    const TrainingState state = this->state();
    if (world_.rank() != 0) return;
    EXPECT_EQ(state.steps, expected.steps);
    EXPECT_EQ(state.evaluations, expected.evaluations);
    EXPECT_EQ(state.layers, expected.layers);
  }

  [[nodiscard]] std::vector<std::int64_t> steps_of_checkpoints() const { return checkpoint_steps(file("checkpoints")); }

  /// The checkpoint of `step` among those kept aside becomes the only one, and there is no record.
  void begin_from(const std::string& kept, std::int64_t step) {
    clear_checkpoints();
    if (world_.rank() == 0) {
      std::filesystem::remove(file("results.h5"));
      std::filesystem::create_directory(file("checkpoints"));
      std::filesystem::copy(checkpoint_folder(file(kept), step), checkpoint_folder(file("checkpoints"), step));
    }
    world_.barrier();
  }
  void clear_checkpoints() {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::remove_all(file("checkpoints"));
    world_.barrier();
  }
  void keep_as(const std::string& kept) {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::rename(file("checkpoints"), file(kept));
    world_.barrier();
  }

  std::string folder_;
  std::function<void()> before_training_ = [] {}, after_training_ = [] {};
};

}  // namespace sluice
