#include "runtime/comm/mpi_check.h"

#include <mpi.h>

#include <array>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  if (MPI_Error_string(code, words.data(), &length) != MPI_SUCCESS) length = 0;
  throw runtime_fault(
      text(call, " failed with code ", code, ": ", std::string(words.data(), static_cast<std::size_t>(length))));
}

}  // namespace sluice
