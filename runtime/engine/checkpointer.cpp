#include "runtime/engine/checkpointer.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

namespace sluice {
namespace {

// The first notes; the writer's follow.
enum Note : std::size_t { kStop, kTimeIsUp, kOwnNotes };

}  // namespace

Checkpointer::Checkpointer(const Plan& plan, Communicator& comm, Executor& executor, Recorder& recorder,
                           const StepClock& clock, StopRequest& stop, CheckpointSettings settings,
                           CheckpointManifest conditions, std::int64_t first_step)
    : comm_(comm),
      recorder_(recorder),
      clock_(clock),
      stop_(stop),
      settings_(std::move(settings)),
      conditions_(std::move(conditions)),
      writer_(plan, comm, executor, clock, settings_.folder, settings_.keep, first_step),
      last_(first_step),
      last_ns_(clock.now_ns()) {}

std::vector<double> Checkpointer::notes() {
  std::vector<double> notes(kOwnNotes);
  notes[kStop] = stop_.signal();
  const double since_last_s = static_cast<double>(clock_.now_ns() - last_ns_) * 1e-9;
  notes[kTimeIsUp] = comm_.rank() == 0 && settings_.every_s > 0 && since_last_s >= settings_.every_s ? 1 : 0;
  const std::vector<double> of_writer = writer_.notes();
  notes.insert(notes.end(), of_writer.begin(), of_writer.end());
  return notes;
}

void Checkpointer::hear(std::span<const double> notes) {
  stop_signal_ = static_cast<int>(notes[kStop]);
  time_is_up_ = notes[kTimeIsUp] > 0;
  if (const auto record = writer_.hear(notes.subspan(kOwnNotes))) recorder_.add(*record);
}

void Checkpointer::exchange_notes() { hear(comm_.finish_max(comm_.start_max(notes()))); }

std::int64_t Checkpointer::next_regular(std::int64_t from) const {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const std::int64_t every = settings_.every_steps;
  return every == 0 || from > kNever - every ? kNever : (from / every + 1) * every;
}

void Checkpointer::pause(std::int64_t steps) {
  if (!writer_.busy() && (time_is_up_ || steps >= next_regular(last_))) take(steps);
}

void Checkpointer::close(std::int64_t steps) {
  finish_writing();
  if (settings_.regular() || stop_signal_ != 0) take(steps);
  finish_writing();
}

void Checkpointer::take(std::int64_t steps) {
  if (steps == last_) return;
  recorder_.flush();  // what a checkpoint stands for is in the record
  CheckpointManifest manifest = conditions_;
  manifest.step = steps;
  manifest.epoch = steps / (manifest.samples / manifest.global_batch());
  writer_.start(std::move(manifest));
  last_ = steps;
  last_ns_ = clock_.now_ns();
  time_is_up_ = false;
}

void Checkpointer::finish_writing() {
  // Nobody waits long in an agreement, however long a file takes.
  constexpr std::chrono::milliseconds kTick{2};
  while (writer_.busy()) {
    std::this_thread::sleep_for(kTick);
    exchange_notes();
  }
}

}  // namespace sluice
