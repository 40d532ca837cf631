#include "runtime/comm/exit_guard.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace sluice {

ExitGuard::ExitGuard(std::chrono::milliseconds limit, int exit_code, std::string line)
    : thread_([this, limit, exit_code, line = std::move(line)] { watch(limit, exit_code, line); }) {}

ExitGuard::~ExitGuard() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ExitGuard::watch(std::chrono::milliseconds limit, int exit_code, const std::string& line) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, limit, [this] { return released_; })) return;
  std::fprintf(stderr, "%s\n", line.c_str());
  std::this_thread::sleep_for(kOutputTime);
  _exit(exit_code);
}

}  // namespace sluice
