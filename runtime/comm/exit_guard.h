#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice {

/// Bounds the time of a call that may never return. If the guard still stands
/// after `limit`, it writes `line` to stderr and leaves the process with
/// `exit_code`, without destructors: whatever must survive is on disk before.
class ExitGuard {
 public:
  ExitGuard(std::chrono::milliseconds limit, int exit_code, std::string line);
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

 private:
  void watch(std::chrono::milliseconds limit, int exit_code, const std::string& line);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace sluice
