#pragma once

#include <mpi.h>

#include <string>

/// Every MPI call goes through here, in every build type.
namespace sluice {

/// MPI's own words for an error code.
[[nodiscard]] std::string mpi_words(int code);

/// @param code  what the MPI function `call` returned
/// @throws Error (runtime fault) naming the call, with MPI's words, if it is not MPI_SUCCESS.
void check_mpi(int code, const char* call);

/// Owns an MPI_Comm. Freed before MPI ends.
class CommHandle {
 public:
  explicit CommHandle(MPI_Comm comm) : comm_(comm) {}
  ~CommHandle() { MPI_Comm_free(&comm_); }
  CommHandle(const CommHandle&) = delete;
  CommHandle& operator=(const CommHandle&) = delete;
  [[nodiscard]] MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

}  // namespace sluice
