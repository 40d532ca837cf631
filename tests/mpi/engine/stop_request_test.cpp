#include "runtime/engine/stop_request.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/device/host/host_device.h"
#include "runtime/nn/models.h"
#include "tests/device/chain_run.h"

namespace sluice {
namespace {

/// Losses of some micro-batches, with an update after each.
std::vector<float> train_lenet(int microbatches) {
  constexpr std::int64_t kSamples = 8;
  const std::unique_ptr<Device> device = create_host_device();
  ChainRun chain(*device, build_model("lenet5", {1, 28, 28}, 10, kSamples), 1);
  std::vector<float> images(kSamples * 28 * 28), losses;
  std::vector<std::int32_t> labels(kSamples);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i);
  for (int m = 0; m < microbatches; ++m) {
    const std::vector<float> loss = chain.run(
        images, labels, {.seed = 1, .step = m, .valid_samples = kSamples, .loss_scale = 1.0F / kSamples}, true);
    losses.insert(losses.end(), loss.begin(), loss.end());
    chain.update({.learning_rate = 1e-3F});
  }
  return losses;
}

/// oneDNN's generated kernels may use the stack pointer as any other register. A handler of signals would write its
/// frame wherever that points to: into the heap.
TEST(StopRequest, leaves_kernels_alone_that_signals_interrupt) {
  constexpr int kMicrobatches = 500;
  const std::vector<float> expected = train_lenet(kMicrobatches);
  StopRequest stop;
  const pthread_t trains = pthread_self();
  std::atomic<bool> ended = false;
  std::thread storm([&] {
    while (!ended) {
      pthread_kill(trains, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(10));
    }
  });
  const std::vector<float> losses = train_lenet(kMicrobatches);
  ended = true;
  storm.join();
  EXPECT_EQ(losses, expected);
  EXPECT_EQ(stop.signal(), SIGUSR1);
}

TEST(StopRequest, knows_the_first_signal_and_hears_what_came_before_it_within_another) {
  const StopRequest outer;
  raise(SIGTERM);
  {
    StopRequest inner;
    EXPECT_EQ(inner.signal(), SIGTERM);
    raise(SIGUSR1);
    EXPECT_EQ(inner.signal(), SIGTERM);
  }
  StopRequest next;
  EXPECT_EQ(next.signal(), 0) << "what the one before has noted is done with";
}

}  // namespace
}  // namespace sluice
