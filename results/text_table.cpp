#include "results/text_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>

#include "core/text.h"

namespace sluice {
namespace {

std::string fixed(double value, int digits, const std::string& unit) {
  std::ostringstream stream;
  stream << std::fixed << std::setprecision(digits) << value << unit;
  return stream.str();
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      line += c == 0 ? text("  ", row[c], padding) : text("  ", padding, row[c]);
    }
    lines += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return lines;
}

std::string format_seconds(double seconds) {
  if (std::abs(seconds) >= 1) return fixed(seconds, 3, " s");
  if (std::abs(seconds) >= 1e-3) return fixed(seconds * 1e3, 3, " ms");
  return fixed(seconds * 1e6, 1, " us");
}

std::string format_percent(double share) { return fixed(share * 100, 1, " %"); }

std::string format_signed_percent(double share) {
  if (!std::isfinite(share)) return "not predicted";
  return text(share >= 0 ? "+" : "", format_percent(share));
}

std::string format_mebibytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / (1 << 20), 1, " MiB"); }

std::string format_bytes(std::int64_t bytes) {
  if (bytes < 1 << 10) return text(bytes, " B");
  return bytes < 1 << 20 ? fixed(static_cast<double>(bytes) / (1 << 10), 1, " KiB") : format_mebibytes(bytes);
}

std::string format_exact(double value) { return fixed(value, value == std::floor(value) ? 0 : 2, ""); }

}  // namespace sluice
