#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/moves.h"
#include "runtime/comm/communicator.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace sluice {
namespace {

constexpr std::int64_t kChunk = 4096;

Communicator small_chunks(std::int64_t chunk_bytes = kChunk) { return with_chunks_of(chunk_bytes); }

/// Values of one member: whole numbers are summed exactly in any order, others are not.
std::vector<float> values_of(Rank rank, std::size_t count, unsigned seed, bool whole) {
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(rank));
  std::vector<float> values(count);
  for (float& value : values) {
    const auto drawn = static_cast<float>(random() % 2001) - 1000;
    value = whole ? drawn : drawn / 7 * std::pow(10.0F, static_cast<float>(random() % 9));
  }
  return values;
}

/// An all-reduce of the tests: all ranks draw the same one, each knows its own addends.
struct Sum {
  Group group;
  Route route;
  std::size_t count = 0;
  unsigned seed = 0;
};

Sum random_sum(std::mt19937& random, const Communicator& world) {
  constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 1000, kChunk / 4, kChunk + 1, 5 * kChunk - 3, 20001};
  Sum sum;
  sum.group = random_group(random, world.size());
  const auto known = algorithms(CollectiveKind::all_reduce);
  sum.route.algorithm = known[random() % known.size()];
  sum.count = kCounts[random() % std::size(kCounts)];
  sum.seed = static_cast<unsigned>(random());
  return sum;
}

Operation start(Communicator& world, const Sum& sum, std::vector<float>& data, int tag) {
  const auto part =
      world.prepare(CollectiveKind::all_reduce, sum.group, sum.route, 4 * std::ssize(data), cluster_of(world));
  return world.start(part, data.data(), tag, {});
}

/// Chunk c is summed once around the ring, beginning with member c.
std::vector<float> sum_in_order_of_the_ring(const Sum& sum, const Cluster& cluster) {
  const std::vector<Edge> ring = ring_edges(sum.group, cluster);
  const std::size_t members = std::max<std::size_t>(1, ring.size());
  std::vector<std::vector<float>> addends;
  for (std::size_t i = 0; i < members; ++i)
    addends.push_back(values_of(ring.empty() ? sum.group.root : ring[i].from, sum.count, sum.seed, false));
  std::vector<float> result;
  for (std::size_t c = 0; c < members; ++c) {
    const std::size_t length = sum.count / members + (c < sum.count % members ? 1 : 0);
    for (const std::size_t first = result.size(); result.size() < first + length;) {
      float value = addends[c][result.size()];
      for (std::size_t i = 1; i < members; ++i) value += addends[(c + i) % members][result.size()];
      result.push_back(value);
    }
  }
  return result;
}

/// What the moves make of the addends, one after the other.
std::vector<float> sum_in_order_of_the_moves(const Sum& sum, const Cluster& cluster) {
  std::map<Rank, std::vector<float>> values;
  for (const Rank member : sum.group.members) values[member] = values_of(member, sum.count, sum.seed, false);
  for (const Move& move : all_reduce_moves(sum.group, sum.route, static_cast<std::int64_t>(4 * sum.count), cluster))
    for (std::int64_t i = move.offset / 4; i < (move.offset + move.bytes) / 4; ++i) {
      const float value = values[move.from][static_cast<std::size_t>(i)];
      float& target = values[move.to][static_cast<std::size_t>(i)];
      target = move.adds ? target + value : value;
    }
  return values[sum.group.root];
}

TEST(AllReduce, sums_whole_numbers_exactly) {
  Communicator world = small_chunks();
  for (unsigned seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Sum sum = random_sum(random, world);
    if (!is_member(sum.group, world.rank())) continue;
    std::vector<float> data = values_of(world.rank(), sum.count, sum.seed, true);
    Operation operation = start(world, sum, data, static_cast<int>(seed));
    world.wait(operation);
    std::vector<float> expected(sum.count);
    for (const Rank member : sum.group.members) {
      const std::vector<float> addend = values_of(member, sum.count, sum.seed, true);
      std::transform(addend.begin(), addend.end(), expected.begin(), expected.begin(), std::plus<>());
    }
    ASSERT_EQ(data, expected);
  }
}

TEST(AllReduce, adds_in_the_order_of_the_ring_whatever_the_sizes_of_messages) {
  for (const std::int64_t chunk_bytes : {std::int64_t{1}, std::int64_t{10}, kChunk, std::int64_t{1} << 30}) {
    Communicator world = small_chunks(chunk_bytes);
    for (unsigned seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", messages of " << chunk_bytes << " B");
      std::mt19937 random(seed);
      Sum sum = random_sum(random, world);
      sum.route.algorithm = Algorithm::ring;
      if (chunk_bytes < kChunk) sum.count = std::min<std::size_t>(sum.count, 1000);
      if (!is_member(sum.group, world.rank())) continue;
      std::vector<float> data = values_of(world.rank(), sum.count, sum.seed, false);
      Operation operation = start(world, sum, data, static_cast<int>(seed));
      world.wait(operation);
      ASSERT_EQ(data, sum_in_order_of_the_ring(sum, cluster_of(world)));
    }
  }
}

TEST(AllReduce, keeps_many_apart_that_every_rank_starts_and_awaits_in_its_own_order) {
  Communicator world = small_chunks();
  std::mt19937 random(5);
  std::vector<Sum> sums;
  std::vector<std::vector<float>> data;
  for (int i = 0; i < 30; ++i) {
    sums.push_back(random_sum(random, world));
    data.push_back(values_of(world.rank(), sums.back().count, sums.back().seed, false));
  }
  std::vector<std::size_t> order(sums.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 own(static_cast<unsigned>(world.rank()));
  std::shuffle(order.begin(), order.end(), own);
  std::vector<Operation> operations(sums.size());
  for (const std::size_t i : order)
    if (is_member(sums[i].group, world.rank())) operations[i] = start(world, sums[i], data[i], static_cast<int>(i));
  std::shuffle(order.begin(), order.end(), own);
  for (const std::size_t i : order) {
    if (!is_member(sums[i].group, world.rank())) continue;
    world.wait(operations[i]);
    ASSERT_EQ(data[i], sum_in_order_of_the_moves(sums[i], cluster_of(world))) << "sum " << i;
  }
}

TEST(AllReduce, leaves_all_members_with_the_bits_that_its_moves_make) {
  for (const std::int64_t chunk_bytes : {std::int64_t{1000}, std::int64_t{1} << 30}) {
    const Communicator world = small_chunks(chunk_bytes);
    for (unsigned seed = 0; seed < 10; ++seed) {
      std::mt19937 random(seed);
      Communicator placed = world.permuted(random_order(random, world.size()));
      Sum sum = random_sum(random, placed);
      sum.route.algorithm = Algorithm::hierarchical;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", messages of " << chunk_bytes << " B");
      if (!is_member(sum.group, placed.rank())) continue;
      std::vector<float> data = values_of(placed.rank(), sum.count, sum.seed, false);
      Operation operation = start(placed, sum, data, 1);
      placed.wait(operation);
      ASSERT_EQ(data, sum_in_order_of_the_moves(sum, cluster_of(placed)));
    }
  }
}

// Above the size of what waits to be added, and of the segments inside a node.
TEST(AllReduce, of_many_pieces_is_exact) {
  Communicator world = Communicator::world();
  Sum sum{
      .group = {.members = std::vector<Rank>(static_cast<std::size_t>(world.size()))}, .route = {}, .count = 700001};
  std::iota(sum.group.members.begin(), sum.group.members.end(), 0);
  std::vector<float> expected(sum.count);
  for (const Rank member : sum.group.members) {
    const std::vector<float> addend = values_of(member, sum.count, sum.seed, true);
    std::transform(addend.begin(), addend.end(), expected.begin(), expected.begin(), std::plus<>());
  }
  for (const Algorithm algorithm : algorithms(CollectiveKind::all_reduce)) {
    sum.route.algorithm = algorithm;
    std::vector<float> data = values_of(world.rank(), sum.count, sum.seed, true);
    Operation operation = start(world, sum, data, 1);
    world.wait(operation);
    EXPECT_TRUE(data == expected) << to_string(algorithm);
  }
}

TEST(AllReduce, counts_the_bytes_of_its_moves_by_link_class) {
  Communicator world = small_chunks();
  const Cluster cluster = cluster_of(world);
  LinkBytes sent{};
  LinkBytes received{};
  std::mt19937 random(11);
  for (int i = 0; i < 25; ++i) {
    const Sum sum = random_sum(random, world);
    const auto bytes = static_cast<std::int64_t>(4 * sum.count);
    const std::vector<Move> moves = all_reduce_moves(sum.group, sum.route, bytes, cluster);
    add(sent, bytes_of(moves, world.rank(), true, cluster));
    add(received, bytes_of(moves, world.rank(), false, cluster));
    if (!is_member(sum.group, world.rank())) continue;
    std::vector<float> data(sum.count);
    Operation operation = start(world, sum, data, i);
    world.wait(operation);
  }
  EXPECT_EQ(world.sent_bytes(), sent);
  EXPECT_EQ(world.received_bytes(), received);
}

TEST(AllReduce, moves_by_progress_alone) {
  Communicator world = small_chunks();
  std::mt19937 random(3);
  Sum sum = random_sum(random, world);
  sum.count = 20000;
  if (!is_member(sum.group, world.rank())) return;
  std::vector<float> data = values_of(world.rank(), sum.count, sum.seed, false);
  Operation operation = start(world, sum, data, 0);
  while (!operation.done()) world.progress();
  EXPECT_EQ(data, sum_in_order_of_the_moves(sum, cluster_of(world)));
}

TEST(AllReduce, of_a_single_member_is_done_at_once) {
  Communicator world = Communicator::world();
  std::vector<float> value{42};
  for (const Algorithm algorithm : algorithms(CollectiveKind::all_reduce)) {
    Operation operation = start(world, {{world.rank(), {world.rank()}}, {algorithm}, 1, 0}, value, 0);
    EXPECT_TRUE(operation.done());
    world.wait(operation);
  }
  EXPECT_EQ(value, std::vector<float>{42});
  EXPECT_EQ(world.sent_bytes(), (LinkBytes{0, 0}));
}

// A kernel still adds to the gradients when the all-reduce starts.
TEST(AllReduce, refuses_bytes_that_are_no_whole_floats) {
  Communicator world = Communicator::world();
  const Group alone{.root = world.rank(), .members = {world.rank()}};
  for (const Algorithm algorithm : algorithms(CollectiveKind::all_reduce))
    for (const std::int64_t bytes : {1, 2, 7, 4099})
      EXPECT_THROW(
          (void)world.prepare(CollectiveKind::all_reduce, alone, {.algorithm = algorithm}, bytes, cluster_of(world)),
          Error)
          << bytes;
}

TEST(AllReduce, touches_no_buffer_before_its_event) {
  Communicator world = small_chunks();
  if (world.size() < 2 || world.rank() > 1) return;
  std::vector<float> data(20000, 1);
  const auto event = std::make_shared<ManualEvent>();
  Operation operation = world.start(world.prepare(CollectiveKind::all_reduce, {0, {0, 1}}, {Algorithm::ring},
                                                  4 * std::ssize(data), cluster_of(world)),
                                    data.data(), 5, Event(event));
  std::thread kernel([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(world.rank() == 0 ? 20 : 60));
    for (float& value : data) value += static_cast<float>(world.rank());
    event->set();
  });
  world.wait(operation);
  kernel.join();
  EXPECT_EQ(data, std::vector<float>(20000, 3));
}

}  // namespace
}  // namespace sluice
