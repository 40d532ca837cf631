#include "runtime/device/fake/fake_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>

#include "core/error.h"
#include "runtime/device/host/host_device.h"
#include "runtime/nn/models.h"
#include "tests/device/chain_run.h"
#include "tests/device/random_arrays.h"

namespace sluice {
namespace {

using std::chrono::microseconds;

/// An event that the test itself completes.
class Gate : public Event::State {
 public:
  bool done() override { return open_; }
  void wait() override { open_.wait(false); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_ = false;
};

std::unique_ptr<Device> fake(const FakeSettings& settings) {
  return create_fake_device(create_host_device(), settings);
}

struct Outcome {
  std::vector<float> losses;
  std::vector<std::vector<float>> masters;
  bool operator==(const Outcome&) const = default;
};

Outcome train(Device& device, const Model& model) {
  std::mt19937 random(99);
  ChainRun chain(device, model, 7);
  Outcome outcome;
  const std::vector<std::int32_t> labels{1, 0, 2, 3};
  for (std::int64_t step = 0; step < 3; ++step) {
    for (std::int64_t first = 0; first < 8; first += 4) {
      const auto images = random_array(4 * element_count(model.layers[0].input_shape), random);
      const MicrobatchContext context{7, step, first, 4, 1.0F / 8, true};
      const auto losses = chain.run(images, labels, context, first == 0);
      outcome.losses.insert(outcome.losses.end(), losses.begin(), losses.end());
    }
    chain.update({.learning_rate = 0.01F, .momentum = 0.9F});
  }
  outcome.masters = chain.masters();
  return outcome;
}

Model dropout_network() {
  ModelBuilder builder("with dropout", {1, 12, 12}, 4, 4);
  builder.convolution("conv", 8, 3).relu("relu1").max_pool("pool", 2, 2).linear("fc1", 32).relu("relu2");
  return builder.dropout("dropout", 0.5).linear("fc2", 4).softmax_cross_entropy("loss");
}

TEST(FakeDevice, delivers_the_same_bits_as_the_device_below) {
  for (const Model& model : {build_model("lenet5", {1, 28, 28}, 10, 4), dropout_network()}) {
    const Outcome expected = train(*create_host_device(), model);
    for (const std::uint64_t seed : {1U, 2U})
      EXPECT_EQ(train(*fake({.seed = seed, .max_delay = microseconds(50)}), model), expected) << "seed " << seed;
  }
}

TEST(FakeDevice, works_later_not_at_once) {
  const auto device = fake({});
  const auto stream = device->create_stream();
  const auto gate = std::make_shared<Gate>();
  std::vector<float> source{1, 2, 3}, destination(3);
  stream->wait_for(Event(gate));
  device->copy(*stream, destination.data(), source.data(), 12);
  const Event copied = stream->record();
  EXPECT_FALSE(copied.done());
  EXPECT_EQ(destination, std::vector<float>(3));
  source = {4, 5, 6};  // the source is read when the copy runs
  gate->open();
  copied.wait();
  EXPECT_TRUE(copied.done());
  EXPECT_EQ(destination, source);
}

TEST(FakeDevice, streams_wait_for_each_other_and_for_nothing_else) {
  const auto device = fake({});
  const auto producer = device->create_stream(), consumer = device->create_stream(),
             bystander = device->create_stream();
  const auto gate = std::make_shared<Gate>();
  const float one = 1;
  float middle = 0, end = 0, aside = 0;
  producer->wait_for(Event(gate));
  device->copy(*producer, &middle, &one, 4);
  consumer->wait_for(producer->record());
  device->copy(*consumer, &end, &middle, 4);
  device->copy(*bystander, &aside, &one, 4);
  bystander->record().wait();  // hangs if streams were one queue
  EXPECT_EQ(aside, 1);
  const Event last = consumer->record();
  EXPECT_FALSE(last.done());
  gate->open();
  last.wait();
  EXPECT_EQ(end, 1);
}

TEST(FakeDevice, fails_at_the_chosen_piece_of_work_and_stops_the_stream) {
  const auto device = fake({.fail_at = 1});
  const auto stream = device->create_stream();
  const float one = 1;
  float first = 0, second = 0, third = 0;
  device->copy(*stream, &first, &one, 4);
  const Event before = stream->record();
  device->copy(*stream, &second, &one, 4);
  device->copy(*stream, &third, &one, 4);
  const Event after = stream->record();
  EXPECT_NO_THROW(before.wait());
  EXPECT_THROW(after.wait(), Error);
  EXPECT_THROW((void)after.done(), Error);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(third, 0);
}

TEST(FakeDevice, failure_reaches_the_streams_that_wait_for_it) {
  const auto device = fake({.fail_at = 0});
  const auto failing = device->create_stream(), waiting = device->create_stream();
  const float one = 1;
  float copy = 0;
  device->copy(*failing, &copy, &one, 4);
  waiting->wait_for(failing->record());
  device->copy(*waiting, &copy, &one, 4);
  EXPECT_THROW(waiting->record().wait(), Error);
  EXPECT_EQ(copy, 0);
}

TEST(FakeDevice, failure_inside_a_network_surfaces_as_an_error) {
  for (const std::int64_t fail_at : {0, 30, 60, 90})
    EXPECT_THROW(train(*fake({.max_delay = microseconds(0), .fail_at = fail_at}), dropout_network()), Error)
        << "piece " << fail_at;
}

TEST(FakeDevice, new_buffers_hold_nan) {
  const auto device = fake({});
  const Buffer buffer = device->allocate(16);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(static_cast<const float*>(buffer.data())[i]));
}

TEST(FakeDevice, refuses_what_the_device_below_refuses) {
  Layer foreign;
  foreign.name = "foreign";
  EXPECT_THROW((void)fake({})->create_kernel(foreign, 1), Error);
}

}  // namespace
}  // namespace sluice
