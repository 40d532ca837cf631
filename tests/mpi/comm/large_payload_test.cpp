#include <gtest/gtest.h>

#include <cstring>

#include "runtime/comm/communicator.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace sluice {
namespace {

/// More than MPI's int can count, and no multiple of anything.
constexpr std::int64_t kBytes = (std::int64_t{9} << 28) + 3;

Communicator patient() {
  CommunicatorSettings settings;
  settings.wait_limit_s = 0;  // gigabytes take their time on a busy machine
  return Communicator::world(settings);
}

std::uint64_t word_at(std::int64_t index) { return static_cast<std::uint64_t>(index) * 0x9E3779B97F4A7C15U; }

/// Every word of 8 bytes is another one; the last bytes are what fits of theirs.
template <typename Visit>
void for_each_word(Bytes& data, Visit visit) {
  for (std::int64_t begin = 0; begin < std::ssize(data); begin += 8) {
    const std::uint64_t word = word_at(begin / 8);
    visit(&data[static_cast<std::size_t>(begin)], &word,
          static_cast<std::size_t>(std::min<std::int64_t>(8, std::ssize(data) - begin)));
  }
}

std::int64_t wrong_words(Bytes& data) {
  std::int64_t wrong = 0;
  for_each_word(data, [&](const void* found, const void* word, std::size_t bytes) {
    wrong += std::memcmp(found, word, bytes) == 0 ? 0 : 1;
  });
  return wrong;
}

void expect_delivery(Communicator& world, Route route) {
  const Cluster cluster = cluster_of(world);
  const Group both{.root = 1, .members = {0, 1}};
  Bytes data(static_cast<std::size_t>(kBytes));
  if (world.rank() == both.root)
    for_each_word(data, [](void* to, const void* word, std::size_t bytes) { std::memcpy(to, word, bytes); });
  const auto part = world.prepare(CollectiveKind::multicast, both, route, kBytes, cluster);
  Operation operation = world.start(part, data.data(), 0, {});
  world.wait(operation);
  EXPECT_EQ(wrong_words(data), 0) << to_string(route.algorithm);
  const std::vector<Move> moves = multicast_moves(both, route, kBytes, cluster);
  EXPECT_EQ(operation.received_bytes(), bytes_of(moves, world.rank(), false, cluster));
  EXPECT_EQ(operation.sent_bytes(), bytes_of(moves, world.rank(), true, cluster));
}

TEST(LargePayload, above_2_GiB_is_multicast_whole) {
  Communicator world = patient();
  expect_delivery(world, {.algorithm = Algorithm::hierarchical});
  expect_delivery(world, {.algorithm = Algorithm::mpi});
}

TEST(LargePayload, above_2_GiB_is_multicast_in_segments_and_verified) {
  Communicator world = patient();
  world.verify_transfers();
  expect_delivery(world, {.algorithm = Algorithm::chain, .segment_bytes = kBytes / 2 + 5});
}

TEST(LargePayload, above_2_GiB_is_summed) {
  Communicator world = patient();
  constexpr std::int64_t kCount = kBytes / 4;
  std::vector<float> data(static_cast<std::size_t>(kCount));
  const auto value = [](std::int64_t i, Rank rank) { return static_cast<float>(i % 1000 + rank); };
  for (std::int64_t i = 0; i < kCount; ++i) data[static_cast<std::size_t>(i)] = value(i, world.rank());
  const auto part = world.prepare(CollectiveKind::all_reduce, {.root = 0, .members = {0, 1}},
                                  {.algorithm = Algorithm::ring}, 4 * kCount, cluster_of(world));
  Operation operation = world.start(part, data.data(), 0, {});
  world.wait(operation);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kCount; ++i)
    wrong += data[static_cast<std::size_t>(i)] == value(i, 0) + value(i, 1) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice
