#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace sluice {

/// Between a process's last words and its end: launchers drop what they have not passed on by then.
constexpr std::chrono::milliseconds kOutputTime{500};

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
