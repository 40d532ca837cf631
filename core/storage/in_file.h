#pragma once

#include <cstdint>
#include <string>

#include "core/error.h"
#include "core/storage/reader.h"
#include "core/text.h"

namespace sluice {

/// Runs `action`; an Error of it then begins with the file's name.
template <typename Action>
void in_file(const std::string& path, Action action) {
  try {
    action();
  } catch (const Error& error) {
    throw Error(error.exit_code(), text(path, ": ", error.what()));
  }
}

/// 16 digits: fingerprints and digests, which HDF5 tools would show as signed numbers.
[[nodiscard]] inline std::string hexadecimal(std::uint64_t value) {
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, value >>= 4)
    *digit = "0123456789abcdef"[value & 15];
  return digits;
}

/// Compares a stored fingerprint or digest with that of what was read.
inline void require_identity(const GroupReader& group, const std::string& attribute, std::uint64_t actual) {
  const std::string stored = group.text_attribute(attribute);
  if (stored != hexadecimal(actual))
    group.refuse("", text("attribute ", attribute, " is ", stored, ", but the contents give ", hexadecimal(actual),
                          ": the file was changed after it was written, or by another version; write it anew"));
}

}  // namespace sluice
