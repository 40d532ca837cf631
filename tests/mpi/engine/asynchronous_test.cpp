// An asynchronous plan trains as its schedule's formula says, bit for bit: the oracle's versions are computed from the
// formula, never from the plan.
#include "core/asynchronous.h"

#include "core/error.h"
#include "core/prediction.h"
#include "runtime/device/fake/fake_device.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/trainer.h"
#include "tests/mpi/engine/equality.h"

namespace sluice {
namespace {

constexpr int kMicrobatch = 2, kSamples = 32;

/// Which pipeline is trained; `shift` as in Cuts.
struct Pipeline {
  std::string schedule;
  int positions = 1;
  int microbatches = 1;
  int shift = 0;
};

/// Steps between evaluations: two epochs, so that an epoch ends in a pipeline that is full.
std::int64_t period(const Pipeline& pipeline) { return 2 * (kSamples / kMicrobatch / pipeline.microbatches); }

/// By the schedule's formula.
Staleness staleness(const Pipeline& pipeline, int layers) {
  const auto position = [&](int layer, int shift) {
    const std::vector<int> cuts = bounds(layers, pipeline.positions, shift);
    return static_cast<int>(std::upper_bound(cuts.begin(), cuts.end(), layer) - cuts.begin()) - 1;
  };
  const bool one_batch_late = pipeline.schedule == "pipedream-2bw";
  Staleness staleness{.microbatches = one_batch_late ? pipeline.microbatches : 1, .delays = {}, .stretches = {}};
  for (int layer = 0; layer < layers; ++layer) {
    const int first = std::min(position(layer, pipeline.shift), position(layer, -pipeline.shift));
    staleness.delays.push_back(one_batch_late ? 1 : pipeline.positions - 1 - first);
  }
  return staleness;
}

std::string evaluation_line(double loss) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "evaluation %a\n", loss);
  return buffer;
}

class Asynchronous : public Equality {
 protected:
  Asynchronous() {
    use(small_model(kMicrobatch), kSamples + 1);
    results_ = data_ + "-results.h5";
  }
  ~Asynchronous() override {
    world_.barrier();
    if (world_.rank() != 0) return;
    std::filesystem::remove(results_);
    std::filesystem::remove_all(parts_folder(results_));
  }

  Plan plan_of(const Pipeline& pipeline) {
    return plan(pipeline.schedule, pipeline.microbatches, shifted(pipeline.positions, pipeline.shift));
  }

  /// One evaluation before the end, and after it as few steps as there may be.
  static TrainerSettings settings(const Pipeline& pipeline, const Plan& plan) {
    return {.steps = period(pipeline) + steadies_in_drain(plan), .evaluate_every = 2, .record_every = 1, .seed = 1};
  }

  /// The oracle's losses, evaluations and weights, on rank 0 alone.
  TrainingOutcome outcome_of(const Pipeline& pipeline, std::int64_t steps) {
    if (world_.rank() != 0) return {};
    Staleness formula = staleness(pipeline, layers());
    formula.stretches = {period(pipeline), steps - period(pipeline)};
    return train_out_of_date(*host_, profile_.model, task(pipeline.microbatches), formula);
  }

  static RunHeader header(const Plan& plan) {
    RunHeader header;
    header.plan = plan;
    header.predicted = predict_step(plan).timeline;
    return header;
  }

  void expect_as_formula(const Pipeline& pipeline, Device& device) {
    const Plan plan = plan_of(pipeline);
    ASSERT_FALSE(verify(plan)) << to_string(*verify(plan));
    require_executable(plan);
    const StepClock clock;
    const std::unique_ptr<DataLoader> loader = open(data_, plan);
    DataLoader& data = *loader;
    const TrainingTask task = this->task(plan.microbatches);
    Executor executor(plan, device, world_, data, clock, {task.seed, task.sgd});
    executor.initialise();
    EXPECT_EQ(executor.allocated_bytes(), memory_use(plan, world_.rank()).total());
    Recorder recorder(world_, clock, results_, header(plan));
    const TrainerSettings settings = this->settings(pipeline, plan);
    require_long_stretches(plan, data, settings);
    StopRequest stop;
    Checkpointer none(plan, world_, executor, recorder, clock, stop, {}, {}, 0);
    (void)Trainer(plan, world_, data, executor, recorder, none, clock, settings).train();
    recorder.finish();

    const TrainingOutcome expected = outcome_of(pipeline, settings.steps);
    const std::string weights =
        world_.broadcast(to_text({.losses = {}, .weights = expected.weights, .evaluations = {}}));
    for (const auto& [id, values] : executor.weights()) {
      const std::string line = text(profile_.model.layers[at(id)].name, ' ', hash_of(values), '\n');
      EXPECT_NE(weights.find(line), std::string::npos) << line << " is not in\n" << weights;
    }
    if (world_.rank() == 0) expect_recorded(expected, period(pipeline));
    world_.barrier();
  }

  void expect_recorded(const TrainingOutcome& expected, std::int64_t period) const {
    const RunResults results = read_results(results_);
    TrainingOutcome outcome;
    for (const StepRecord& step : results.tables.steps) outcome.losses.push_back(step.loss);
    EXPECT_EQ(to_text(outcome), to_text({.losses = expected.losses, .weights = {}, .evaluations = {}}));
    ASSERT_EQ(results.tables.evaluations.size(), expected.evaluations.size());
    for (std::size_t i = 0; i < expected.evaluations.size(); ++i)
      EXPECT_EQ(evaluation_line(results.tables.evaluations[i].loss), evaluation_line(expected.evaluations[i]));
    EXPECT_EQ(std::ssize(results.tables.ranks),
              world_.size() * std::max<std::int64_t>(0, period - steadies_in_drain(results.header.plan) -
                                                            steadies_to_settle(results.header.plan)));
    for (const RankStep& step : results.tables.ranks) {
      const RankTimeline& predicted = results.header.predicted.ranks[at(step.rank)];
      EXPECT_EQ(step.sent_bytes, predicted.sent_bytes) << "step " << step.step << ", rank " << step.rank;
      EXPECT_EQ(step.received_bytes, predicted.received_bytes) << "step " << step.step << ", rank " << step.rank;
    }
  }

  void expect_all_as_formula(const std::string& schedule, const std::vector<int>& positions,
                             const std::vector<int>& microbatches, Device& device) {
    for (const int k : positions)
      for (const int m : microbatches)
        for (const Cuts& cuts : kCuts) {
          if (k == 1 && cuts.shift != 0) continue;
          if (schedule == "pipedream-2bw" && m < k) continue;
          SCOPED_TRACE(text(schedule, ", ", cuts.name, ", K = ", k, ", M = ", m));
          expect_as_formula({schedule, k, m, cuts.shift}, device);
        }
  }

  std::string results_;
};

TEST_F(Asynchronous, pipedream_trains_with_the_versions_of_its_formula) {
  expect_all_as_formula("pipedream", {1, 2, 3, 4}, {1, 3, 8}, *host_);
}

TEST_F(Asynchronous, pipedream_2bw_trains_one_batch_late) {
  expect_all_as_formula("pipedream-2bw", {1, 2, 3, 4}, {1, 2, 4, 8}, *host_);
}

TEST_F(Asynchronous, versions_hold_on_a_device_that_works_late) {
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 7});
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) expect_all_as_formula(schedule, {3}, {4}, *fake);
}

TEST_F(Asynchronous, versions_hold_where_one_rank_reads_the_data_for_all) {
  for (const Rank reader : {0, 2, 3}) {  // rank 3 has no stage
    SCOPED_TRACE(text("reader ", reader));
    data_reader_ = reader;
    for (const char* schedule : {"pipedream", "pipedream-2bw"}) expect_all_as_formula(schedule, {3}, {4}, *host_);
  }
}

TEST_F(Asynchronous, every_rank_leaves_when_a_loss_is_not_finite) {
  const Pipeline pipeline{"pipedream", 4, 2};
  const Plan plan = plan_of(pipeline);
  const StepClock clock;
  DataLoader data(data_, plan.profile.model, plan.microbatches);
  Executor executor(plan, *host_, world_, data, clock, {1, {.learning_rate = 1e30F}});
  executor.initialise();
  Recorder recorder(world_, clock, results_, header(plan));
  StopRequest stop;
  Checkpointer none(plan, world_, executor, recorder, clock, stop, {}, {}, 0);
  Trainer trainer(plan, world_, data, executor, recorder, none, clock, settings(pipeline, plan));
  EXPECT_THROW((void)trainer.train(), AgreedError);
}

TEST_F(Asynchronous, fewer_steps_between_pauses_than_a_drain_finishes_are_refused) {
  const Plan plan = plan_of({"pipedream", 4, 1});  // a drain finishes 3 micro-batches, an epoch has 16
  ASSERT_EQ(steadies_in_drain(plan), 3);
  const DataLoader data(data_, plan.profile.model, plan.microbatches);
  EXPECT_NO_THROW(require_long_stretches(plan, data, {.steps = 3}));
  EXPECT_THROW(require_long_stretches(plan, data, {.steps = 2}), Error);
  EXPECT_NO_THROW(require_long_stretches(plan, data, {.steps = 19, .evaluate_every = 1}));
  EXPECT_THROW(require_long_stretches(plan, data, {.steps = 18, .evaluate_every = 1}), Error);
}

}  // namespace
}  // namespace sluice
