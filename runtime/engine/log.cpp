#include "runtime/engine/log.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace sluice {

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
  return stamp.data();
}

void log_line(const std::string& message) { std::fprintf(stderr, "%s %s\n", timestamp().c_str(), message.c_str()); }

}  // namespace sluice
