#include "tests/mpi/flip_bit.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

long messages_before = -1;  // -1: no more flips
long least_bytes = 0;

[[gnu::constructor]] void take_from_environment() {
  const char* wish = std::getenv("SLUICE_TEST_FLIP_BIT");
  const char* rank = std::getenv("PMI_RANK");
  int wished_rank = 0;
  long nth = 0, bytes = 0;
  if (wish == nullptr || rank == nullptr || std::sscanf(wish, "%d %ld %ld", &wished_rank, &nth, &bytes) != 3) return;
  if (wished_rank == std::atoi(rank)) flip_bit_of(nth, bytes);
}

/// What goes out instead of `data`; it stays until the process ends.
const void* perhaps_flipped(const void* data, int bytes) {
  if (messages_before < 0 || bytes < least_bytes || messages_before-- > 0) return data;
  auto* copy = new std::vector<char>(static_cast<std::size_t>(bytes));
  std::memcpy(copy->data(), data, copy->size());
  std::size_t place = copy->size() / 8 * 4;  // of a float
  while (place + 8 <= copy->size() && (*copy)[place + 3] == 0) place += 4;
  (*copy)[std::min(place + 3, copy->size() - 1)] ^= 2;
  return copy->data();
}

}  // namespace

extern "C" {

void flip_bit_of(long nth, long bytes) {
  messages_before = nth;
  least_bytes = bytes;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Isend(type == MPI_BYTE ? perhaps_flipped(data, count) : data, count, type, to, tag, comm, request);
}

int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  return PMPI_Issend(type == MPI_BYTE ? perhaps_flipped(data, count) : data, count, type, to, tag, comm, request);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  const bool sends = rank == root && type == MPI_BYTE;
  return PMPI_Ibcast(sends ? const_cast<void*>(perhaps_flipped(data, count)) : data, count, type, root, comm, request);
}

}  // extern "C"
