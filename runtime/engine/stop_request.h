#pragma once

#include <csignal>
#include <string>

namespace sluice {

/// SIGTERM and SIGUSR1 ask a run to stop when it suits it: while this stands they are blocked, and wait until someone
/// asks for them. No handler may run for them: kernels that oneDNN generates use the stack pointer as a register of
/// their own, so that a handler's frame would be written into the heap.
///
/// To be made before any other thread is started: threads inherit what is blocked, one that does not would still die of
/// a signal to the process. One inside another hears also what came before it.
class StopRequest {
 public:
  StopRequest();
  /// Signals that still wait are dropped, later ones do what they did before this stood.
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that was seen first; 0: none yet.
  [[nodiscard]] int signal();

 private:
  sigset_t before_{};
  int signal_ = 0;
};

/// "SIGTERM"
[[nodiscard]] std::string signal_name(int signal);

}  // namespace sluice
