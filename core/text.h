#pragma once

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

}  // namespace sluice
