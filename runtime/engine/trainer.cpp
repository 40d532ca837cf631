#include "runtime/engine/trainer.h"

#include <algorithm>
#include <array>
#include <limits>
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

/// The next evaluation, or the end of training: where a pipeline is empty whatever else happens.
std::int64_t next_evaluation(std::int64_t first, std::int64_t period, std::int64_t steps) {
  return period == 0 ? steps : std::min(steps, (first / period + 1) * period);
}

}  // namespace

void require_long_stretches(const Plan& plan, const DataLoader& data, const TrainerSettings& settings) {
  if (!asynchronous(plan)) return;
  const std::int64_t period = evaluation_period(data, settings);
  const std::int64_t least = steadies_in_drain(plan), most = std::numeric_limits<int>::max() / 2 / plan.microbatches;
  const auto require = [&](std::int64_t first) {
    const std::int64_t length = next_evaluation(first, period, settings.steps) - first;
    if (length > 0 && length < least)
      throw bad_input(text(plan.schedule, " over this pipeline needs at least ", least,
                           " steps from one evaluation to the next, and to the end, to fill and drain it, but ", length,
                           " follow step ", first, ": change --steps, --epochs or --evaluate-every",
                           first > 0 && first == settings.first_step ? ", or go on under another plan" : ""));
    if (length > most)
      throw bad_input(
          text(length, " steps of ", plan.microbatches,
               " micro-batches without a pause are more than are counted: lower --evaluate-every or --steps"));
  };
  require(settings.first_step);
  if (period == 0) return;
  require(next_evaluation(settings.first_step, period, settings.steps));
  require(settings.steps / period * period);
}

Trainer::Trainer(const Plan& plan, Communicator& comm, DataLoader& data, Executor& executor, Recorder& recorder,
                 Checkpointer& checkpointer, const StepClock& clock, const TrainerSettings& settings)
    : plan_(plan),
      comm_(comm),
      data_(data),
      executor_(executor),
      recorder_(recorder),
      checkpointer_(checkpointer),
      clock_(clock),
      settings_(settings),
      steps_per_epoch_(steps_per_epoch(data)),
      evaluation_period_(evaluation_period(data, settings)) {
  if (!asynchronous(plan)) return;
  in_drain_ = steadies_in_drain(plan);
  behind_ = steadies_to_settle(plan);
}

TrainingSummary Trainer::train() {
  std::int64_t steps = settings_.first_step;
  summary_.evaluation = recorder_.earlier_evaluation();
  checkpointer_.exchange_notes();
  (void)lap();
  if (steps > 0 && !summary_.evaluation) pause(steps);
  while (steps < settings_.steps && checkpointer_.stop_signal() == 0) {
    steps = run_from(steps);
    pause(steps);
  }
  summary_.stop_signal = checkpointer_.stop_signal();
  checkpointer_.close(steps);
  summary_.steps = steps;
  // The first step pays for memory that is touched for the first time.
  if (step_s_.size() > 1) step_s_.erase(step_s_.begin());
  if (!step_s_.empty()) summary_.step_s = median(step_s_);
  return summary_;
}

std::int64_t Trainer::run_from(std::int64_t first) {
  if (in_drain_ > 0) return stretch(first);
  step(first);
  return first + 1;
}

void Trainer::pause(std::int64_t steps) {
  const auto stops = [&] { return checkpointer_.stop_signal() != 0; };
  if (evaluates_after(steps) && !stops()) summary_.evaluation = evaluate(steps);
  if (!stops()) checkpointer_.pause(steps);
  (void)lap();
}

bool Trainer::evaluates_after(std::int64_t steps) const {
  return evaluation_period_ > 0 && (steps % evaluation_period_ == 0 || steps == settings_.steps);
}

void Trainer::step(std::int64_t s) {
  data_.begin_batch(Split::train, rows(s, s + 1));
  const Program& step_program = training_program(plan_);
  const ProgramRun run = executor_.run(step_program, {.step = s, .settle_each = records(s)});
  const BatchLoss loss = agree_on_loss(comm_, run.losses, plan_.microbatches, checkpointer_.notes());
  if (!conclude(s, loss, lap())) report_not_finite(s);
  recorder_.add_run(s, step_program, run, records(s));
}

std::int64_t Trainer::stretch(std::int64_t first) {
  struct Pending {
    std::int64_t step;
    double duration_s;
    LossAgreement loss;
  };
  const auto agree_on = [&](std::int64_t s) {
    return start_agreement(comm_, losses_, static_cast<int>(s - first) * plan_.microbatches, plan_.microbatches,
                           checkpointer_.notes());
  };
  losses_.clear();
  (void)run_part("fill", first, first);
  std::optional<Pending> pending;
  std::int64_t s = first;
  for (; !drains_at(first, s); ++s) {
    const ProgramRun run = run_part("steady", first, s);
    if (s - first >= behind_) recorder_.add_run(s, training_program(plan_), run, records(s));
    if (pending && !conclude(pending->step, finish_agreement(comm_, std::move(pending->loss)), pending->duration_s)) {
      (void)run_part("drain", first, s + 1);  // nobody leaves while messages are under way
      report_not_finite(pending->step);
    }
    pending = Pending{s, lap(), agree_on(s)};
  }
  (void)run_part("drain", first, s);
  const double duration_s = lap() / static_cast<double>(in_drain_);
  const auto finish = [&](std::int64_t done, LossAgreement loss, double took_s) {
    if (!conclude(done, finish_agreement(comm_, std::move(loss)), took_s)) report_not_finite(done);
  };
  if (pending) finish(pending->step, std::move(pending->loss), pending->duration_s);
  const std::int64_t end = s + in_drain_;
  for (; s < end; ++s) finish(s, agree_on(s), duration_s);
  return end;
}

bool Trainer::drains_at(std::int64_t first, std::int64_t s) const {
  const std::int64_t end = s + in_drain_;  // of the stretch, then
  const std::int64_t left = next_evaluation(first, evaluation_period_, settings_.steps) - end;
  if (left == 0) return true;
  if (left < in_drain_) return false;  // too few for another stretch
  return end >= checkpointer_.next_regular(first) || checkpointer_.time_is_up() || checkpointer_.stop_signal() != 0;
}

ProgramRun Trainer::run_part(const char* name, std::int64_t first, std::int64_t step) {
  const std::int64_t oldest = std::max(first, step - behind_), newest = step + in_drain_ + 1;
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
  checkpointer_.hear(batch.notes);
  const auto loss = static_cast<float>(batch.sum / static_cast<double>(data_.global_batch()));
  summary_.loss = loss;
  step_s_.push_back(duration_s);
  recorder_.add({.step = s, .epoch = s / steps_per_epoch_, .loss = loss, .duration_s = duration_s});
  log_progress(s, loss);
  return true;
}

double Trainer::lap() {
  const std::int64_t begin_ns = std::exchange(lap_ns_, clock_.now_ns());
  return static_cast<double>(lap_ns_ - begin_ns) * 1e-9;
}

std::optional<Evaluation> Trainer::evaluate(std::int64_t steps) {
  const std::int64_t samples = data_.samples(Split::test);
  BatchLoss total;
  for (std::int64_t first = 0; first < samples; first += data_.global_batch()) {
    std::vector<std::int64_t> chosen(static_cast<std::size_t>(std::min(data_.global_batch(), samples - first)));
    std::iota(chosen.begin(), chosen.end(), first);
    data_.begin_batch(Split::test, chosen);
    const ProgramRun run = executor_.run(program(plan_, "evaluate"), {.step = steps - 1, .training = false});
    const BatchLoss batch = agree_on_loss(comm_, run.losses, plan_.microbatches, checkpointer_.notes());
    if (!batch.finite) report_not_finite(steps - 1);
    checkpointer_.hear(batch.notes);
    if (checkpointer_.stop_signal() != 0) return std::nullopt;
    total.sum += batch.sum;
    total.correct += batch.correct;
  }
  const Evaluation result{.step = steps,
                          .loss = total.sum / static_cast<double>(samples),
                          .accuracy = total.correct / static_cast<double>(samples),
                          .samples = samples};
  recorder_.add(result);
  if (comm_.rank() == 0)
    log_line(text("evaluation after step ", steps, ": loss ", result.loss, ", accuracy ", result.accuracy));
  return result;
}

bool Trainer::records(std::int64_t s) const {
  return s == settings_.first_step || s == settings_.steps - 1 - in_drain_ || s % settings_.record_every == 0;
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
  if (s > settings_.first_step && !last && clock_.now_ns() - last_log_ns_ < kLogInterval_ns) return;
  last_log_ns_ = clock_.now_ns();
  log_line(text("step ", s + 1, "/", settings_.steps, ", epoch ", s / steps_per_epoch_ + 1, ", loss ", loss,
                ", step_s ", step_s_.back()));
}

}  // namespace sluice
