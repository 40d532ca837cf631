#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "runtime/device/device.h"

namespace sluice {

struct FakeSettings {
  std::uint64_t seed = 0;                    ///< decides the delays
  std::chrono::microseconds max_delay{200};  ///< before each piece of work, uniform from 0
  std::int64_t fail_at = -1;                 ///< this piece of work fails (in order of enqueueing, from 0); -1: none
};

/// For tests: an asynchronous device on top of another one. Each stream is a
/// thread (ended, after its work, by the stream's destruction: let the buffers
/// outlive it) that runs the enqueued work on `inner`, later and at its own pace, so
/// that reading a result too early, freeing a buffer too early or a missing
/// wait_for shows. New buffers are full of NaN. A failed piece of work stops its
/// stream; events recorded there afterwards throw Error (runtime fault), and so
/// do those of streams that waited for them. Worker threads take over the
/// OpenMP thread count of the thread that calls this function.
[[nodiscard]] std::unique_ptr<Device> create_fake_device(std::unique_ptr<Device> inner, const FakeSettings& settings);

}  // namespace sluice
