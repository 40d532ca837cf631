#pragma once

#include <string>

namespace sluice {

/// Now, as ISO 8601 with zone: "2026-11-29T17:06:38+0000".
[[nodiscard]] std::string timestamp();

/// One line on stderr: timestamp and message. Rank 0 calls it; the caller checks.
void log_line(const std::string& message);

}  // namespace sluice
