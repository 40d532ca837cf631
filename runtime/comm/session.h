#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "core/error.h"

namespace sluice {

/// Starts and ends MPI: once a process, around everything else.
class MpiSession {
 public:
  /// Asks for MPI_THREAD_MULTIPLE, needs SERIALIZED, sets MPI_ERRORS_RETURN.
  /// @param start_limit  MPI may take no longer to begin: a rank that never comes would hold all others for ever. After
  ///   that the process says so, and leaves with the code of a runtime fault. 0: no limit
  /// @throws Error (usage) if MPI knows of another number of tasks than were started: names the --mpi fix.
  explicit MpiSession(std::chrono::milliseconds start_limit = {});

  /// Meets the other ranks once more, then ends MPI. Over UCX/TCP MPI_Finalize
  /// may hang, and after a fault a rank may be gone: after the limit of finish() this
  /// says so and leaves with the code of finish(). So all files must be closed before.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// The code that a stuck MPI_Finalize must still leave with, and when.
  void finish(int exit_code, std::chrono::milliseconds limit = kFinalizeLimit) {
    exit_code_ = exit_code;
    limit_ = limit;
  }

  /// "MPICH 4.0.2"
  [[nodiscard]] static std::string library_version();

  static constexpr std::chrono::seconds kFinalizeLimit{10};

 private:
  int exit_code_ = static_cast<int>(ExitCode::runtime_fault);  ///< of who leaves before finish(): by an exception
  std::chrono::milliseconds limit_ = kFinalizeLimit;
};

/// Why this start cannot work, empty if it can: MPI knows of another number of ranks than
/// the launcher started. Where the PMI of srun (or another MPI's mpiexec) and of MPI do
/// not match, each task believes to be alone. Only a step counts, not the batch
/// script, and not what the right mpiexec starts inside an allocation.
/// @param variable  an environment variable's value, null if it is not set
[[nodiscard]] std::string launch_defect(int mpi_size, const std::function<const char*(const char*)>& variable);

}  // namespace sluice
