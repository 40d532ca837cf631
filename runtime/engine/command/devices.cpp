#include "runtime/engine/command/devices.h"

#include <omp.h>

#include "core/error.h"
#include "core/text.h"
#include "runtime/device/fake/fake_device.h"
#include "runtime/device/host/host_device.h"

namespace sluice {

std::unique_ptr<Device> create_device(const std::string& name, int threads, std::uint64_t seed) {
  if (threads < 1) throw usage_error(text("--threads is ", threads, ", expected at least 1"));
  omp_set_num_threads(threads);
  if (name == "host") return create_host_device();
  if (name == "fake") return create_fake_device(create_host_device(), {.seed = seed});
  throw usage_error(text("unknown device '", name, "', expected host or fake"));
}

}  // namespace sluice
