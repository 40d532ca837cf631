#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/model.h"
#include "runtime/comm/exit_guard.h"
#include "runtime/comm/mpi_check.h"
#include "runtime/comm/node_map.h"

namespace sluice {

/// Ends a job on all ranks, with one exit code: a rank that meets a fault tells all others and hears who answers; then
/// they leave together. On a communicator of its own, so that payload is never in its way. One for all communicators
/// of a process.
class Alarm {
 public:
  /// A rank that does not answer within this time counts as silent.
  static constexpr std::chrono::seconds kAnswerLimit{5};
  /// All that is left to do after a fault (closing files, the roll call, leaving) is given this time.
  static constexpr std::chrono::seconds kEndLimit{30};

  /// Collective over `world`, whose ranks `nodes` describes.
  Alarm(MPI_Comm world, NodeMap nodes);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  /// By which ranks are named from here on.
  void rename(NodeMap nodes) { nodes_ = std::move(nodes); }
  /// This process by that map, for people.
  [[nodiscard]] std::string whoami() const { return describe_all({rank_}); }

  /// Called in every idle round. Answers a rank that sounds the alarm.
  /// @param waits  whether this rank waits for others
  /// @throws AlarmHeard with that rank's exit code
  void listen(bool waits);

  /// From here on this process ends with `exit_code`: when the launcher asks it to (SIGTERM, where there was no alarm
  /// its end as always), and after kEndLimit by itself.
  void must_end(int exit_code);

  /// Tells all other ranks that the job ends with `exit_code`. Takes kAnswerLimit at most.
  /// @return for people: which ranks gave no answer (dead, stopped, stuck, behind a dead link, in a long kernel), and
  ///   which answered but were in no wait
  [[nodiscard]] std::string sound(int exit_code);

  /// Leaves with the other ranks, without destructors and MPI_Finalize. A rank that sounded the alarm and found others
  /// silent has the launcher kill them.
  [[noreturn]] void leave(int exit_code);

 private:
  [[nodiscard]] bool answer(bool waits);  ///< true if there was a call to answer
  void expect_call();
  [[nodiscard]] bool meet();  ///< true when all ranks are about to leave
  [[nodiscard]] std::vector<Rank> who_answered(int how) const;
  [[nodiscard]] std::string describe_all(const std::vector<Rank>& world_ranks) const;

  CommHandle comm_;
  NodeMap nodes_;
  Rank rank_ = 0;
  int size_ = 0;
  int called_code_ = 0;  ///< the exit code that comes with the next call
  int heard_code_ = 0;
  MPI_Request call_ = MPI_REQUEST_NULL;
  std::vector<int> answers_;  ///< of each rank, once it has sounded: kNoAnswer, kBusy or kWaits
  bool sounded_ = false, some_silent_ = false;
  std::unique_ptr<ExitGuard> guard_;
};

/// What started this process ends with the highest exit code of its tasks, and counts one that it kills as 128 + signal
/// (srun); others (mpiexec) end with the code of MPI_Abort.
[[nodiscard]] bool started_by_srun();

}  // namespace sluice
