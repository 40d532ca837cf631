#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device/device.h"

namespace sluice {

/// Makes the device that --device names, for `threads` threads of this process:
/// "host", or "fake", the host made asynchronous with delays from `seed` (for tests).
/// @throws Error (usage) for another name or less than one thread, (unsupported) for "cuda", which is not built yet.
[[nodiscard]] std::unique_ptr<Device> create_device(const std::string& name, int threads, std::uint64_t seed);

}  // namespace sluice
