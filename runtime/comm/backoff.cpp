#include "runtime/comm/backoff.h"

#include <sched.h>

#include <chrono>
#include <thread>

namespace sluice {
namespace {

// Measured in docs/communication.md.
constexpr int kPolls = 1000;
constexpr int kYields = 10;
constexpr std::chrono::microseconds kNap{20};

}  // namespace

void Backoff::pause() {
  if (idle_polls_ < kPolls) {
    ++idle_polls_;
  } else if (idle_polls_ < kPolls + kYields) {
    ++idle_polls_;
    sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace sluice
