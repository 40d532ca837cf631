#pragma once

namespace sluice {

/// What an idle wait loop does between two polls: first nothing, then yield the
/// core, then sleep for moments. MPICH's own waits spin, which costs tens of
/// milliseconds a message once there are more ranks than cores.
class Backoff {
 public:
  void pause();
  void reset() { idle_polls_ = 0; }

 private:
  int idle_polls_ = 0;
};

}  // namespace sluice
