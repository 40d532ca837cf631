#include "runtime/engine/recorder.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <limits>
#include <thread>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"
#include "runtime/engine/log.h"

namespace sluice {

namespace {

std::int64_t& total_of(RankStep& totals, Op op) {
  switch (op) {
    case Op::load_input:
    case Op::load_labels:
      return totals.load_ns;
    case Op::optimizer_step:
      return totals.update_ns;
    case Op::multicast_wait:
    case Op::all_reduce_wait:
      return totals.wait_ns;
    default:
      return is_compute(op) ? totals.compute_ns : totals.communication_ns;
  }
}

std::vector<RankPlace> gather_places(Communicator& comm) {
  const std::array<double, 1> mine{static_cast<double>(std::thread::hardware_concurrency())};
  const std::vector<double> cores = comm.all_gather(mine);
  std::vector<RankPlace> places;
  for (Rank rank = 0; rank < comm.size(); ++rank)
    places.push_back({comm.node_names()[at(comm.node_of_rank()[at(rank)])], static_cast<int>(cores[at(rank)])});
  return places;
}

/// The record that a run goes on with, if there is one.
std::optional<RunResults> earlier_attempts(const std::string& path, const RunHeader& header) {
  const bool begins = header.first_step == 0;
  if (!has_parts(path) && (begins || !std::filesystem::exists(path))) {
    if (!begins) log_line(text(path, ": there is no record of the steps before ", header.first_step, " to go on with"));
    return std::nullopt;
  }
  RunResults earlier = read_results(path);
  const auto& layers = [](const RunHeader& of) -> auto& { return of.plan.profile.model.layers; };
  if (earlier.header.seed == header.seed && layers(earlier.header) == layers(header)) return earlier;
  if (begins) return std::nullopt;
  throw bad_input(text(path, " is the record of another training: name another --output"));
}

}  // namespace

RankStep rank_totals(const Program& program, Rank rank, std::int64_t step, const ProgramRun& run) {
  RankStep totals{.step = step,
                  .rank = rank,
                  .start_ns = run.begin_ns,
                  .duration_ns = run.duration_ns,
                  .sent_bytes = run.timeline.sent_bytes,
                  .received_bytes = run.timeline.received_bytes,
                  .peak_memory_bytes = run.timeline.peak_memory_bytes};
  const std::vector<Instruction>& list = program.ranks[at(rank)];
  for (std::size_t i = 0; i < list.size(); ++i)
    total_of(totals, list[i].op) += run.timeline.instructions[i].end_ns - run.timeline.instructions[i].start_ns;
  return totals;
}

Recorder::Recorder(Communicator& comm, const StepClock& clock, const std::string& path, RunHeader header, bool resume)
    : comm_(comm), clock_(clock), path_(path), writer_(path, comm.rank(), begin(std::move(header), resume)) {
  writer_.add(estimate_clock_offset(comm, clock));
}

int Recorder::begin(RunHeader header, bool resume) {
  header.places = gather_places(comm_);
  constexpr double kUnknown = -std::numeric_limits<double>::infinity();
  std::array<double, 4> of_rank_zero{kUnknown, kUnknown, kUnknown, kUnknown};
  on_rank_zero(comm_, [&] {
    lock_ = std::make_unique<FolderLock>(parts_folder(path_));
    const std::optional<RunResults> earlier = resume ? earlier_attempts(path_, header) : std::nullopt;
    of_rank_zero[0] = begin_results(path_, header, earlier.has_value());
    if (!earlier) return;
    for (const Evaluation& evaluation : earlier->tables.evaluations)
      if (evaluation.step == header.first_step)
        of_rank_zero = {of_rank_zero[0], static_cast<double>(evaluation.samples), evaluation.loss, evaluation.accuracy};
  });
  comm_.all_max(of_rank_zero);
  const auto [attempt, samples, loss, accuracy] = of_rank_zero;
  if (samples > 0)
    earlier_evaluation_ = {
        .step = header.first_step, .loss = loss, .accuracy = accuracy, .samples = static_cast<std::int64_t>(samples)};
  return static_cast<int>(attempt);
}

void Recorder::add_run(std::int64_t step, const Program& program, const ProgramRun& run, bool timeline) {
  writer_.add(rank_totals(program, comm_.rank(), step, run));
  if (timeline) writer_.add_timeline(step, run.timeline);
}

void Recorder::add(const StepRecord& step) {
  if (comm_.rank() == 0) writer_.add(step);
  if (clock_.now_ns() - last_flush_ns_ >= std::chrono::nanoseconds(kFlushInterval).count()) flush();
}

void Recorder::add(const Evaluation& evaluation) {
  if (comm_.rank() == 0) writer_.add(evaluation);
}

void Recorder::add(const CheckpointRecord& checkpoint) {
  if (comm_.rank() == 0) writer_.add(checkpoint);
}

void Recorder::flush() {
  last_flush_ns_ = clock_.now_ns();
  try {
    writer_.flush();
    warned_ = false;
  } catch (const Error& error) {
    if (!warned_)
      log_line(text("warning: ", comm_.describe(comm_.rank()), ": the record cannot be written: ", error.what(),
                    "; training goes on, what is recorded waits in memory"));
    warned_ = true;
  }
}

void Recorder::finish() {
  collectively(comm_, [&] { writer_.flush(); });
  on_rank_zero(comm_, [&] { merge_results(path_); });
}

}  // namespace sluice
