#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// Columns of equal width, two spaces apart; the first is aligned left, the others right.
[[nodiscard]] std::string text_table(const std::vector<std::vector<std::string>>& rows);

[[nodiscard]] std::string format_seconds(double seconds);        ///< "1.234 ms"
[[nodiscard]] std::string format_percent(double share);          ///< "12.3 %"
[[nodiscard]] std::string format_signed_percent(double share);   ///< "+12.3 %"
[[nodiscard]] std::string format_mebibytes(std::int64_t bytes);  ///< "12.3 MiB"
[[nodiscard]] std::string format_bytes(std::int64_t bytes);      ///< "12 B", "12.3 KiB", "12.3 MiB"
/// Exact, since predicted and sent bytes must be equal: "27648"; "27648.50" if it is no whole number.
[[nodiscard]] std::string format_exact(double value);

}  // namespace sluice
