#include "runtime/engine/trainer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/statistics.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/log.h"
#include "runtime/engine/sample_order.h"

namespace sluice {
namespace {

constexpr std::int64_t kLogInterval_ns = 2'000'000'000;

std::int64_t steps_per_epoch(const DataLoader& data) { return data.samples(Split::train) / data.global_batch(); }

/// Steps from one evaluation to the next; 0: there is none.
std::int64_t evaluation_period(const DataLoader& data, const TrainerSettings& settings) {
  return data.samples(Split::test) == 0 ? 0 : settings.evaluate_every * steps_per_epoch(data);
}

/// The end of the steps from `first` on that run without a pause.
std::int64_t stretch_end(std::int64_t first, std::int64_t period, std::int64_t steps) {
  return period == 0 ? steps : std::min(steps, (first / period + 1) * period);
}

}  // namespace

void require_long_stretches(const Plan& plan, const DataLoader& data, const TrainerSettings& settings) {
  if (!asynchronous(plan)) return;
  const std::int64_t period = evaluation_period(data, settings);
  const std::int64_t first = stretch_end(0, period, settings.steps);
  const std::int64_t last = period == 0 || settings.steps % period == 0 ? first : settings.steps % period;
  const std::int64_t least = steadies_in_drain(plan);
  if (std::min(first, last) < least)
    throw bad_input(text(plan.schedule, " over this pipeline needs at least ", least,
                         " steps from one evaluation to the next, and to the end, to fill and drain it, but some have ",
                         std::min(first, last), ": change --steps, --epochs or --evaluate-every"));
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  if (first > kMost / plan.microbatches)
    throw bad_input(
        text(first, " steps of ", plan.microbatches,
             " micro-batches without a pause are more than are counted: lower --evaluate-every or --steps"));
}

Trainer::Trainer(const Plan& plan, Communicator& comm, DataLoader& data, Executor& executor, Recorder& recorder,
                 const StepClock& clock, const TrainerSettings& settings)
    : plan_(plan),
      comm_(comm),
      data_(data),
      executor_(executor),
      recorder_(recorder),
      clock_(clock),
      settings_(settings),
      steps_per_epoch_(steps_per_epoch(data)) {
  if (!asynchronous(plan)) return;
  in_drain_ = steadies_in_drain(plan);
  behind_ = steadies_to_settle(plan);
}

TrainingSummary Trainer::train() {
  TrainingSummary summary;
  const std::int64_t period = evaluation_period(data_, settings_);
  for (std::int64_t first = 0, end = 0; first < settings_.steps; first = end) {
    end = stretch_end(first, period, settings_.steps);
    (void)lap();
    if (in_drain_ > 0) {
      stretch(first, end);
    } else {
      for (std::int64_t s = first; s < end; ++s) step(s);
    }
    if (period > 0) summary.evaluation = evaluate(end - 1);
  }
  summary.loss = loss_;
  // The first step pays for memory that is touched for the first time.
  if (step_s_.size() > 1) step_s_.erase(step_s_.begin());
  summary.step_s = median(step_s_);
  return summary;
}

void Trainer::step(std::int64_t s) {
  data_.begin_batch(Split::train, rows(s, s + 1));
  const Program& step_program = training_program(plan_);
  const ProgramRun run = executor_.run(step_program, {.step = s, .settle_each = records(s)});
  const BatchLoss loss = agree_on_loss(comm_, run.losses, plan_.microbatches);
  if (!conclude(s, loss, lap())) report_not_finite(s);
  recorder_.add_run(s, step_program, run, records(s));
}

void Trainer::stretch(std::int64_t first, std::int64_t end) {
  struct Pending {
    std::int64_t step;
    double duration_s;
    Maxima loss;
  };
  const auto agree_on = [&](std::int64_t s) {
    return start_agreement(comm_, losses_, static_cast<int>(s - first) * plan_.microbatches, plan_.microbatches);
  };
  losses_.clear();
  (void)run_part("fill", first, first, end);
  std::optional<Pending> pending;
  for (std::int64_t s = first; s < end - in_drain_; ++s) {
    const ProgramRun run = run_part("steady", first, s, end);
    if (s - first >= behind_) recorder_.add_run(s, training_program(plan_), run, records(s));
    if (pending && !conclude(pending->step, finish_agreement(comm_, std::move(pending->loss)), pending->duration_s)) {
      (void)run_part("drain", first, s + 1, end);  // nobody leaves while messages are under way
      report_not_finite(pending->step);
    }
    pending = Pending{s, lap(), agree_on(s)};
  }
  (void)run_part("drain", first, end - in_drain_, end);
  const double duration_s = lap() / static_cast<double>(in_drain_);
  const auto finish = [&](std::int64_t s, Maxima loss, double took_s) {
    if (!conclude(s, finish_agreement(comm_, std::move(loss)), took_s)) report_not_finite(s);
  };
  if (pending) finish(pending->step, std::move(pending->loss), pending->duration_s);
  for (std::int64_t s = end - in_drain_; s < end; ++s) finish(s, agree_on(s), duration_s);
}

ProgramRun Trainer::run_part(const char* name, std::int64_t first, std::int64_t step, std::int64_t end) {
  const std::int64_t oldest = std::max(first, step - behind_), newest = std::min(end, step + in_drain_ + 1);
  const auto base = [&](std::int64_t s) { return static_cast<int>(s - first) * plan_.microbatches; };
  data_.begin_batch(Split::train, rows(oldest, newest), base(oldest));
  losses_.erase(losses_.begin(), losses_.lower_bound(base(oldest)));
  const Program& part = program(plan_, name);
  ProgramRun run = executor_.run(
      part,
      {.step = step, .period = static_cast<int>(step - first), .settle_each = part.name == "steady" && records(step)});
  losses_.merge(run.losses);
  return run;
}

std::vector<std::int64_t> Trainer::rows(std::int64_t first, std::int64_t end) {
  orders_.erase(orders_.begin(), orders_.lower_bound(first / steps_per_epoch_));
  std::vector<std::int64_t> chosen;
  for (std::int64_t s = first; s < end; ++s) {
    std::vector<std::int64_t>& order = orders_[s / steps_per_epoch_];
    if (order.empty()) order = sample_order(data_.samples(Split::train), settings_.seed, s / steps_per_epoch_);
    const auto begin = order.begin() + s % steps_per_epoch_ * data_.global_batch();
    chosen.insert(chosen.end(), begin, begin + data_.global_batch());
  }
  return chosen;
}

bool Trainer::conclude(std::int64_t s, const BatchLoss& batch, double duration_s) {
  if (!batch.finite) return false;
  loss_ = static_cast<float>(batch.sum / static_cast<double>(data_.global_batch()));
  step_s_.push_back(duration_s);
  recorder_.add({.step = s, .epoch = s / steps_per_epoch_, .loss = loss_, .duration_s = duration_s});
  log_progress(s, loss_);
  return true;
}

double Trainer::lap() {
  const std::int64_t begin_ns = std::exchange(lap_ns_, clock_.now_ns());
  return static_cast<double>(lap_ns_ - begin_ns) * 1e-9;
}

Evaluation Trainer::evaluate(std::int64_t s) {
  const std::int64_t samples = data_.samples(Split::test);
  BatchLoss total;
  for (std::int64_t first = 0; first < samples; first += data_.global_batch()) {
    std::vector<std::int64_t> chosen(static_cast<std::size_t>(std::min(data_.global_batch(), samples - first)));
    std::iota(chosen.begin(), chosen.end(), first);
    data_.begin_batch(Split::test, chosen);
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
  return s == 0 || s == settings_.steps - 1 - in_drain_ || s % settings_.record_every == 0;
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
