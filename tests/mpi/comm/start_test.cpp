#include <gtest/gtest.h>
#include <mpi.h>

namespace sluice {
namespace {

TEST(MpiStart, gives_every_process_the_same_world) {
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, size * (size - 1) / 2);
}

TEST(MpiStart, returns_errors_instead_of_ending_the_process) {
  EXPECT_NE(MPI_Send(nullptr, 0, MPI_BYTE, 1000000, 0, MPI_COMM_WORLD), MPI_SUCCESS);
}

}  // namespace
}  // namespace sluice
