// Usage: comm_lost_peer kill|stop: rank 1 is killed, or stopped, before MPI ends.
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <string_view>

#include "runtime/comm/session.h"

int main(int argc, char** argv) {
  sluice::MpiSession session;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1 && argc == 2) std::raise(std::string_view(argv[1]) == "kill" ? SIGKILL : SIGSTOP);
  session.finish(6, std::chrono::seconds(1));
}
