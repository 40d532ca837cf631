#include "runtime/comm/alarm.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <thread>

#include "core/index.h"
#include "core/text.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/faults.h"

namespace sluice {
namespace {

constexpr int kCallTag = 0, kAnswerTag = 1;
constexpr int kNoAnswer = -1, kBusy = 0, kWaits = 1;

volatile std::sig_atomic_t exit_code_on_sigterm = 0;

void leave_on_sigterm(int /*signal*/) { _exit(exit_code_on_sigterm); }

/// Where SIGTERM is blocked, as in training, it no longer is. One that waited there is dropped: it asked for another
/// end.
void hear_sigterm() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  const timespec at_once{};
  (void)sigtimedwait(&set, nullptr, &at_once);
  std::signal(SIGTERM, leave_on_sigterm);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

/// Polls until `done` or the time is over. @return whether it is done
template <typename Done>
bool poll_for(std::chrono::seconds limit, Done done) {
  const auto end = std::chrono::steady_clock::now() + limit;
  Backoff backoff;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    backoff.pause();
  }
  return true;
}

/// Errors do not count here: a rank that cannot be reached does not answer.
bool complete(MPI_Request& request) {
  int flag = 0;
  return MPI_Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag != 0;
}

/// The few bytes stay valid until the process leaves.
void send(int value, Rank to, int tag, MPI_Comm comm) {
  auto* const kept = new int(value);
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Isend(kept, 1, MPI_INT, to, tag, comm, &request) == MPI_SUCCESS) MPI_Request_free(&request);
}

MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return copy;
}

}  // namespace

Alarm::Alarm(MPI_Comm world, NodeMap nodes) : comm_(copy_of(world)), nodes_(std::move(nodes)) {
  check_mpi(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
  expect_call();
}

Alarm::~Alarm() {
  if (call_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&call_);
  MPI_Request_free(&call_);
}

void Alarm::expect_call() {
  check_mpi(MPI_Irecv(&called_code_, 1, MPI_INT, MPI_ANY_SOURCE, kCallTag, comm_.get(), &call_), "MPI_Irecv");
}

bool Alarm::answer(bool waits) {
  int flag = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&call_, &flag, &status), "MPI_Test");
  if (flag == 0) return false;
  send(waits ? kWaits : kBusy, status.MPI_SOURCE, kAnswerTag, comm_.get());
  heard_code_ = called_code_;
  expect_call();  // others may sound it as well
  return true;
}

void Alarm::listen(bool waits) {
  if (!answer(waits)) return;
  must_end(heard_code_);
  throw AlarmHeard(static_cast<ExitCode>(heard_code_), text(whoami(), ": another rank ends the job"));
}

void Alarm::must_end(int exit_code) {
  if (guard_) return;
  exit_code_on_sigterm = exit_code;
  hear_sigterm();
  guard_ = std::make_unique<ExitGuard>(
      kEndLimit, exit_code,
      text(whoami(), ": did not end within ", kEndLimit.count(), " s of a fault, leaving with exit code ", exit_code));
}

std::string Alarm::sound(int exit_code) {
  must_end(exit_code);
  sounded_ = true;
  const auto size = static_cast<std::size_t>(size_);
  answers_.assign(size, kNoAnswer);
  answers_[at(rank_)] = kWaits;
  std::vector<MPI_Request> requests(size, MPI_REQUEST_NULL);
  for (Rank rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    MPI_Irecv(&answers_[at(rank)], 1, MPI_INT, rank, kAnswerTag, comm_.get(), &requests[at(rank)]);
    send(exit_code, rank, kCallTag, comm_.get());
  }
  (void)poll_for(kAnswerLimit, [&] {
    (void)answer(true);
    return std::count_if(requests.begin(), requests.end(), [](auto& request) { return !complete(request); }) == 0;
  });
  const std::vector<Rank> silent = who_answered(kNoAnswer), busy = who_answered(kBusy);
  some_silent_ = !silent.empty();
  return text(some_silent_ ? "no answer from " + describe_all(silent) : "all other ranks answer",
              busy.empty() ? "" : "; waiting for nobody: " + describe_all(busy));
}

std::vector<Rank> Alarm::who_answered(int how) const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size_; ++rank)
    if (answers_[at(rank)] == how) ranks.push_back(rank);
  return ranks;
}

std::string Alarm::describe_all(const std::vector<Rank>& world_ranks) const {
  std::string names;
  for (Rank rank = 0; rank < size_; ++rank)
    if (std::count(world_ranks.begin(), world_ranks.end(), nodes_.world_ranks[at(rank)]) > 0)
      names += text(names.empty() ? "" : ", ", describe(nodes_, rank));
  return names;
}

bool Alarm::meet() {
  MPI_Request request = MPI_REQUEST_NULL;
  return MPI_Ibarrier(comm_.get(), &request) == MPI_SUCCESS && poll_for(kAnswerLimit, [&] {
           (void)answer(true);
           return complete(request);
         });
}

void Alarm::leave(int exit_code) {
  must_end(exit_code);
  std::cout.flush();
  std::fflush(nullptr);
  const bool together = !some_silent_ && meet();
  std::this_thread::sleep_for(kOutputTime);
  if (together && started_by_srun()) _exit(exit_code);
  // The one that sounded the alarm knows how the others fare.
  if (!sounded_) std::this_thread::sleep_for(kAnswerLimit);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  _exit(exit_code);
}

bool started_by_srun() {
  // Hydra's mpiexec starts its proxies by srun, so its ranks sit in a step too.
  return std::getenv("SLURM_STEP_ID") != nullptr && std::getenv("MPI_LOCALNRANKS") == nullptr;
}

}  // namespace sluice
