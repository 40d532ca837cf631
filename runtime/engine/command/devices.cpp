#include "runtime/engine/command/devices.h"

#include <omp.h>

#include "core/command/options.h"
#include "core/error.h"
#include "core/text.h"
#include "runtime/device/fake/fake_device.h"
#include "runtime/device/host/host_device.h"

namespace sluice {

std::unique_ptr<Device> create_device(const std::string& name, int threads, std::uint64_t seed) {
  require_within("threads", threads, 1, 1024);  // OpenMP starts as many as it is told, or hangs over it
  omp_set_num_threads(threads);
  if (name == "host") return create_host_device();
  if (name == "fake") return create_fake_device(create_host_device(), {.seed = seed});
  if (name == "cuda") throw infeasible("this sluice-run was built without CUDA: take --device host");
  throw usage_error(text("unknown device '", name, "', expected host, cuda or fake"));
}

}  // namespace sluice
