#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace sluice {

/// The processor's cores, through oneDNN and OpenMP. Work runs at once in the
/// caller's thread, so every event is done. Kernels are made for, and must be
/// called with, OpenMP's thread count at the time they are created: set it
/// (omp_set_num_threads) before, once per process. Results repeat bit for bit
/// at a fixed count.
[[nodiscard]] std::unique_ptr<Device> create_host_device();

}  // namespace sluice
