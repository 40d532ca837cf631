#include "runtime/engine/stop_request.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "core/text.h"

namespace sluice {
namespace {

sigset_t requests() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

/// A signal that waits, which then no longer does; 0 if none does.
int take() {
  const sigset_t set = requests();
  const timespec at_once{};
  return std::max(0, sigtimedwait(&set, nullptr, &at_once));
}

}  // namespace

StopRequest::StopRequest() {
  const sigset_t set = requests();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

StopRequest::~StopRequest() {
  while (take() != 0) continue;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopRequest::signal() {
  if (signal_ == 0) signal_ = take();
  return signal_;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? text("SIG", name) : text("signal ", signal);
}

}  // namespace sluice
