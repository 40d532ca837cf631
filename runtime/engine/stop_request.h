#pragma once

#include <csignal>
#include <string>

namespace sluice {

/// SIGTERM and SIGUSR1 ask a run to stop when it suits it: while this stands they are noted and do nothing else. One
/// inside another hears also what the outer one has noted.
class StopRequest {
 public:
  StopRequest();
  /// What the signals did before they do again, unless someone else has taken them over since.
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that came first; 0: none.
  [[nodiscard]] int signal() const;

 private:
  struct sigaction before_term_ {};
  struct sigaction before_usr1_ {};
};

/// "SIGTERM"
[[nodiscard]] std::string signal_name(int signal);

}  // namespace sluice
