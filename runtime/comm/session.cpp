#include "runtime/comm/session.h"

#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>

#include "core/text.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/exit_guard.h"
#include "runtime/comm/mpi_check.h"

namespace sluice {
namespace {

// An idle MPI_Barrier spins on its core; with more ranks than cores that keeps
// the last ranks from getting here.
void last_barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
  Backoff backoff;
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    backoff.pause();
  }
}

/// There are no ranks yet to name: host and process find the one that speaks, and who is silent is the one to look for.
std::string too_late(std::chrono::milliseconds limit) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return text("sluice-run: process ", getpid(), " on ", host.data(), ": MPI_Init_thread did not return within ",
              std::chrono::duration<double>(limit).count(), " s (SLUICE_WAIT_LIMIT): not all ranks are there");
}

void init_mpi(std::chrono::milliseconds limit, int& provided) {
  std::unique_ptr<ExitGuard> guard;
  if (limit.count() > 0)
    guard = std::make_unique<ExitGuard>(limit, static_cast<int>(ExitCode::runtime_fault), too_late(limit));
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
}

}  // namespace

MpiSession::MpiSession(std::chrono::milliseconds start_limit) {
  // Linux may wake a nap of 20 us 50 us late, unless told otherwise; threads started from here on inherit it.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  int provided = MPI_THREAD_SINGLE;
  init_mpi(start_limit, provided);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  const std::string defect = launch_defect(size, [](const char* name) { return std::getenv(name); });
  if (defect.empty() && provided >= MPI_THREAD_SERIALIZED) return;
  MPI_Finalize();
  if (!defect.empty()) throw usage_error(defect);
  throw runtime_fault(text(library_version(), " offers thread level ", provided, ", but MPI_THREAD_SERIALIZED (",
                           MPI_THREAD_SERIALIZED, ") is needed: use an MPI built with threads"));
}

MpiSession::~MpiSession() {
  std::cout.flush();
  std::fflush(nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const ExitGuard guard(
      limit_, exit_code_,
      text("rank ", rank, ": MPI_Finalize did not return within ", std::chrono::duration<double>(limit_).count(),
           " s; all files are closed, leaving with exit code ", exit_code_));
  try {
    last_barrier();
    check_mpi(MPI_Finalize(), "MPI_Finalize");
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: ending MPI: %s\n", rank, error.what());
  }
}

std::string MpiSession::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  check_mpi(MPI_Get_library_version(words.data(), &length), "MPI_Get_library_version");
  // MPICH: "MPICH Version:    4.0.2\nMPICH Release date: ..."
  std::istringstream stream(std::string(words.data(), static_cast<std::size_t>(length)));
  std::string line;
  std::getline(stream, line);
  std::istringstream fields(line);
  std::string version;
  for (std::string field; fields >> field;)
    if (field != "Version:") version += (version.empty() ? "" : " ") + field;
  return version;
}

std::string launch_defect(int mpi_size, const std::function<const char*(const char*)>& variable) {
  const auto number = [&](const char* name) { return variable(name) == nullptr ? 0 : std::atoi(variable(name)); };
  // Hydra's mpiexec starts its proxies by srun, so its ranks sit in a step too.
  const bool by_hydra = variable("MPI_LOCALNRANKS") != nullptr;
  // Both are set for what srun starts, not for the batch script. MPI may span several steps of a heterogeneous job.
  const bool by_srun = variable("SLURM_STEP_ID") != nullptr && !by_hydra && variable("SLURM_HET_SIZE") == nullptr;
  const int started = by_srun ? number("SLURM_STEP_NUM_TASKS") : number("OMPI_COMM_WORLD_SIZE");
  if (started <= 1 || mpi_size == started) return {};
  return text(by_srun ? "srun" : "Open MPI's mpiexec", " started ", started, " tasks, but MPI sees ",
              mpi_size == 1 ? "this one alone" : text(mpi_size), ": the PMI of the launcher and of ",
              MpiSession::library_version(), " do not match; start with `srun --mpi=pmi2`, or its own mpiexec");
}

}  // namespace sluice
