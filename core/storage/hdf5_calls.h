#pragma once

// Private to core/storage: with handle.cpp the only door to the HDF5 library.
#include <hdf5.h>

#include <string>

#include "core/error.h"
#include "core/storage/handle.h"
#include "core/storage/values.h"

namespace sluice {

static_assert(std::is_same_v<hid_t, std::int64_t>, "Handle stores HDF5 identifiers as 64-bit integers");

/// To be called before any other HDF5 call of a thread: compares the library
/// with the headers (the library itself would abort) and stops it from printing
/// errors, which become exceptions here.
/// @throws Error (runtime fault) if they differ.
void use_hdf5();

/// What an error is to say and to mean: "plan.h5: /plan/stages/work", bad input while reading.
struct Place {
  ExitCode code = ExitCode::bad_input;
  std::string name;
};

/// Throws the library's error stack as one Error: "<place>: cannot <action>: <innermost reason>".
[[noreturn]] void fail(const Place& place, const std::string& action);

/// Passes a result of the C API on, or throws if it is negative.
template <typename Result>
Result check(Result result, const Place& place, const std::string& action) {
  if (result < 0) fail(place, action);
  return result;
}

/// The type of `number` in memory. The library owns it.
[[nodiscard]] hid_t memory_type(Number number);

/// A string of `bytes` bytes, padded with zeros, UTF-8.
[[nodiscard]] Handle string_type(std::size_t bytes, const Place& place);

/// An enumeration over uint8 whose values are the positions of `names`.
[[nodiscard]] Handle choice_type(const std::vector<std::string>& names, const Place& place);

/// Access properties of every file: no locks, since no file changes under its
/// final name (NFS and Lustre often refuse them); newest format, whose metadata
/// carry checksums.
[[nodiscard]] Handle access_properties(const Place& place);

}  // namespace sluice
