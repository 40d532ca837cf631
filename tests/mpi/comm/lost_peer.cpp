// Usage: comm_lost_peer kill|stop|absent: rank 1 is killed, or stopped, before MPI ends; or stopped before it begins.
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "runtime/comm/session.h"

int main(int argc, char** argv) {
  const std::string_view how = argc == 2 ? argv[1] : "";
  const char* const rank_by_mpiexec = std::getenv("PMI_RANK");
  if (how == "absent" && rank_by_mpiexec != nullptr && std::string_view(rank_by_mpiexec) == "1") std::raise(SIGSTOP);
  sluice::MpiSession session(std::chrono::seconds(how == "absent" ? 1 : 0));
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) std::raise(how == "kill" ? SIGKILL : SIGSTOP);
  session.finish(6, std::chrono::seconds(1));
}
