#include "runtime/comm/mpi_check.h"

#include <array>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

std::string mpi_words(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> words{};
  int length = 0;
  if (MPI_Error_string(code, words.data(), &length) != MPI_SUCCESS) return "unknown error";
  return {words.data(), static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw runtime_fault(text(call, " failed with code ", code, ": ", mpi_words(code)));
}

}  // namespace sluice
