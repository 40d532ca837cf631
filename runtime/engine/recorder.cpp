#include "runtime/engine/recorder.h"

#include <unistd.h>

#include <array>
#include <thread>

#include "core/index.h"
#include "runtime/engine/agreement.h"

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

Recorder::Recorder(Communicator& comm, const StepClock& clock, const std::string& path, RunHeader header)
    : comm_(comm), clock_(clock), path_(path), writer_(path, comm.rank(), begin(std::move(header))) {
  writer_.add(estimate_clock_offset(comm, clock));
}

int Recorder::begin(RunHeader header) {
  header.places = gather_places(comm_);
  int attempt = 0;
  on_rank_zero(comm_, [&] {
    lock_ = std::make_unique<RecordLock>(parts_folder(path_));
    attempt = begin_results(path_, header);
  });
  return std::stoi(comm_.broadcast(std::to_string(attempt)));
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

void Recorder::flush() {
  writer_.flush();
  last_flush_ns_ = clock_.now_ns();
}

void Recorder::finish() {
  collectively(comm_, [&] { flush(); });
  on_rank_zero(comm_, [&] { merge_results(path_); });
}

}  // namespace sluice
