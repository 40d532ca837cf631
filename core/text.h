#pragma once

#include <cstdint>
#include <iomanip>
#include <sstream>
#include <string>

namespace sluice {

/// Concatenates anything that prints: error messages and labels.
template <typename... Parts>
[[nodiscard]] std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

/// "000042": names of files with numbers of equal length sort by number.
[[nodiscard]] inline std::string padded(std::int64_t value, int digits) {
  return text(std::setw(digits), std::setfill('0'), value);
}

}  // namespace sluice
