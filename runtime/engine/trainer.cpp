#include "runtime/engine/trainer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "core/error.h"
#include "core/statistics.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/log.h"
#include "runtime/engine/sample_order.h"

namespace sluice {
namespace {

constexpr std::int64_t kLogInterval_ns = 2'000'000'000;

}  // namespace

Trainer::Trainer(const Plan& plan, Communicator& comm, DataLoader& data, Executor& executor, Recorder& recorder,
                 const StepClock& clock, const TrainerSettings& settings)
    : plan_(plan),
      comm_(comm),
      data_(data),
      executor_(executor),
      recorder_(recorder),
      clock_(clock),
      settings_(settings),
      steps_per_epoch_(data.samples(Split::train) / data.global_batch()) {}

TrainingSummary Trainer::train() {
  TrainingSummary summary;
  for (std::int64_t s = 0; s < settings_.steps; ++s) {
    summary.loss = step(s);
    if (evaluates_after(s)) summary.evaluation = evaluate(s);
  }
  // The first step pays for memory that is touched for the first time.
  if (step_s_.size() > 1) step_s_.erase(step_s_.begin());
  summary.step_s = median(step_s_);
  return summary;
}

float Trainer::step(std::int64_t s) {
  begin_step_batch(s);
  const Program& step_program = program(plan_, "step");
  const ProgramRun run = executor_.run(step_program, {.step = s, .settle_each = records(s)});
  const BatchLoss batch = agree_on_loss(comm_, run.losses, plan_.microbatches);
  if (!batch.finite) report_not_finite(s);
  const auto loss = static_cast<float>(batch.sum / static_cast<double>(data_.global_batch()));
  const double duration_s = static_cast<double>(clock_.now_ns() - run.begin_ns) * 1e-9;
  step_s_.push_back(duration_s);
  recorder_.add_step({.step = s, .epoch = s / steps_per_epoch_, .loss = loss, .duration_s = duration_s}, step_program,
                     run, records(s));
  log_progress(s, loss);
  return loss;
}

void Trainer::begin_step_batch(std::int64_t s) {
  if (const std::int64_t epoch = s / steps_per_epoch_; epoch != epoch_) {
    epoch_ = epoch;
    order_ = sample_order(data_.samples(Split::train), settings_.seed, epoch);
  }
  const std::int64_t first = s % steps_per_epoch_ * data_.global_batch();
  data_.begin_batch(Split::train, std::span(order_).subspan(static_cast<std::size_t>(first),
                                                            static_cast<std::size_t>(data_.global_batch())));
}

Evaluation Trainer::evaluate(std::int64_t s) {
  const std::int64_t samples = data_.samples(Split::test);
  BatchLoss total;
  for (std::int64_t first = 0; first < samples; first += data_.global_batch()) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(data_.global_batch(), samples - first)));
    std::iota(rows.begin(), rows.end(), first);
    data_.begin_batch(Split::test, rows);
    const ProgramRun run = executor_.run(program(plan_, "evaluate"), {.step = s, .training = false});
    const BatchLoss batch = agree_on_loss(comm_, run.losses, plan_.microbatches);
    if (!batch.finite) report_not_finite(s);
    total.sum += batch.sum;
    total.correct += batch.correct;
  }
  const Evaluation result{.step = s + 1,
                          .loss = total.sum / static_cast<double>(samples),
                          .accuracy = total.correct / static_cast<double>(samples),
                          .samples = samples};
  recorder_.add(result);
  if (comm_.rank() == 0)
    log_line(text("evaluation after step ", s + 1, ": loss ", result.loss, ", accuracy ", result.accuracy));
  return result;
}

bool Trainer::records(std::int64_t s) const {
  return s == 0 || s == settings_.steps - 1 || s % settings_.record_every == 0;
}

bool Trainer::evaluates_after(std::int64_t s) const {
  if (settings_.evaluate_every == 0 || data_.samples(Split::test) == 0) return false;
  return s == settings_.steps - 1 || (s + 1) % (steps_per_epoch_ * settings_.evaluate_every) == 0;
}

void Trainer::report_not_finite(std::int64_t s) {
  recorder_.flush();
  // Only now is it worth looking: the buffers still hold this step's outputs.
  const auto layers = static_cast<LayerId>(plan_.profile.model.layers.size());
  std::array<double, 1> first{-static_cast<double>(executor_.first_layer_not_finite().value_or(layers - 1))};
  comm_.all_max(first);
  const Layer& layer = plan_.profile.model.layers[static_cast<std::size_t>(-first[0])];
  throw AgreedError(ExitCode::runtime_fault,
                    text("step ", s, ": the loss is not finite; the first layer with such an output is ", layer.name,
                         ": lower --learning-rate, or check the data"));
}

void Trainer::log_progress(std::int64_t s, float loss) {
  if (comm_.rank() != 0) return;
  const bool last = s == settings_.steps - 1;
  if (s > 0 && !last && clock_.now_ns() - last_log_ns_ < kLogInterval_ns) return;
  last_log_ns_ = clock_.now_ns();
  log_line(text("step ", s + 1, "/", settings_.steps, ", epoch ", s / steps_per_epoch_ + 1, ", loss ", loss,
                ", step_s ", step_s_.back()));
}

}  // namespace sluice
