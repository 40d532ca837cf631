#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "runtime/comm/communicator.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace sluice {
namespace {

constexpr std::int64_t kChunk = 4096;

Communicator small_chunks() {
  CommunicatorSettings settings = CommunicatorSettings::from_environment();
  settings.chunk_bytes = kChunk;
  return Communicator::world(settings);
}

bool contains(const std::vector<Rank>& members, Rank rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

/// A multicast of the tests: all ranks draw the same one, only the root knows the payload.
struct Call {
  Group group;
  std::vector<Edge> edges;
  Bytes data;
};

Call random_call(std::mt19937& random, const Communicator& world) {
  constexpr std::size_t kSizes[] = {0, 1, 7, 1000, kChunk - 1, kChunk, kChunk + 1, 5 * kChunk - 3, 300001};
  Call call;
  call.group = random_group(random, world.size());
  call.edges =
      multicast_edges(call.group, random() % 2 == 0 ? Algorithm::flat : Algorithm::hierarchical, cluster_of(world));
  const std::size_t bytes = kSizes[random() % std::size(kSizes)];
  const unsigned seed = static_cast<unsigned>(random());
  call.data = world.rank() == call.group.root ? random_bytes(bytes, seed) : Bytes(bytes);
  return call;
}

Operation start(Communicator& world, Call& call, int tag) {
  return world.start_multicast(call.edges, call.data.data(), std::ssize(call.data), tag, {});
}

/// What plain MPI_Bcast delivers from the root's data.
Bytes broadcast_by_mpi(const Call& call) {
  Bytes data = call.data;
  MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_BYTE, call.group.root, MPI_COMM_WORLD);
  return data;
}

TEST(Multicast, delivers_what_a_plain_broadcast_delivers) {
  Communicator world = small_chunks();
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Call call = random_call(random, world);
    const Bytes expected = broadcast_by_mpi(call);
    if (!contains(call.group.members, world.rank())) continue;
    Operation operation = start(world, call, static_cast<int>(seed));
    world.wait(operation);
    ASSERT_TRUE(call.data == expected);
  }
}

TEST(Multicast, keeps_many_apart_that_every_rank_starts_and_awaits_in_its_own_order) {
  Communicator world = small_chunks();
  for (unsigned seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::vector<Call> calls;
    std::vector<Bytes> expected;
    for (int i = 0; i < 40; ++i) {
      calls.push_back(random_call(random, world));
      expected.push_back(broadcast_by_mpi(calls.back()));
    }
    std::vector<std::size_t> order(calls.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 own(seed * 100 + static_cast<unsigned>(world.rank()));
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Operation> operations(calls.size());
    for (const std::size_t i : order)
      if (contains(calls[i].group.members, world.rank())) operations[i] = start(world, calls[i], static_cast<int>(i));
    std::shuffle(order.begin(), order.end(), own);
    for (const std::size_t i : order) {
      world.wait(operations[i]);
      const bool member = contains(calls[i].group.members, world.rank());
      ASSERT_TRUE(!member || calls[i].data == expected[i]) << "call " << i;
    }
  }
}

TEST(Multicast, counts_the_bytes_of_its_edges_by_link_class) {
  Communicator world = small_chunks();
  const Cluster cluster = cluster_of(world);
  LinkBytes sent{};
  LinkBytes received{};
  std::mt19937 random(11);
  for (int i = 0; i < 50; ++i) {
    Call call = random_call(random, world);
    for (const Edge& edge : call.edges) {
      const auto link = static_cast<std::size_t>(link_between(cluster, edge.from, edge.to));
      if (edge.from == world.rank()) sent[link] += std::ssize(call.data);
      if (edge.to == world.rank()) received[link] += std::ssize(call.data);
    }
    if (!contains(call.group.members, world.rank())) continue;
    Operation operation = start(world, call, i);
    world.wait(operation);
  }
  EXPECT_EQ(world.sent_bytes(), sent);
  EXPECT_EQ(world.received_bytes(), received);
}

TEST(Multicast, enters_each_remote_node_once_when_hierarchical) {
  Communicator world = small_chunks();
  Group everyone{.root = 0, .members = std::vector<Rank>(static_cast<std::size_t>(world.size()))};
  std::iota(everyone.members.begin(), everyone.members.end(), 0);
  Bytes data(10000);
  Operation operation = world.start_multicast(multicast_edges(everyone, Algorithm::hierarchical, cluster_of(world)),
                                              data.data(), std::ssize(data), 0, {});
  world.wait(operation);
  double sent = static_cast<double>(world.sent_bytes()[static_cast<std::size_t>(LinkKind::inter_node)]);
  double total = 0;
  MPI_Allreduce(&sent, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(total, 10000.0 * static_cast<double>(world.node_names().size() - 1));
}

// With blocking sends this hangs: each neighbour waits for the other's receive.
TEST(Multicast, exchanges_large_messages_between_neighbours_in_both_directions) {
  Communicator world = Communicator::world();
  constexpr std::size_t kBytes = 4 << 20;
  struct Exchange {
    Bytes out, in;
    Operation sending, receiving;
  };
  std::vector<Exchange> exchanges(static_cast<std::size_t>(world.size()));
  const auto tag = [&](Rank from, Rank to) { return from * world.size() + to; };
  for (Rank peer = 0; peer < world.size(); ++peer) {
    if (std::abs(peer - world.rank()) != 1) continue;
    Exchange& exchange = exchanges[static_cast<std::size_t>(peer)];
    exchange.out = random_bytes(kBytes, static_cast<unsigned>(tag(world.rank(), peer)));
    exchange.in.resize(kBytes);
    const std::vector<Edge> there{{world.rank(), peer}};
    const std::vector<Edge> back{{peer, world.rank()}};
    exchange.sending = world.start_multicast(there, exchange.out.data(), kBytes, tag(world.rank(), peer), {});
    exchange.receiving = world.start_multicast(back, exchange.in.data(), kBytes, tag(peer, world.rank()), {});
  }
  for (Rank peer = 0; peer < world.size(); ++peer) {
    Exchange& exchange = exchanges[static_cast<std::size_t>(peer)];
    world.wait(exchange.sending);
    world.wait(exchange.receiving);
    if (exchange.in.empty()) continue;
    EXPECT_TRUE(exchange.in == random_bytes(kBytes, static_cast<unsigned>(tag(peer, world.rank()))));
  }
}

TEST(Multicast, moves_by_progress_alone) {
  Communicator world = small_chunks();
  std::mt19937 random(3);
  Call call = random_call(random, world);
  call.data.resize(50000);
  const Bytes expected = broadcast_by_mpi(call);
  if (!contains(call.group.members, world.rank())) return;
  Operation operation = start(world, call, 0);
  while (!operation.done()) world.progress();
  EXPECT_TRUE(call.data == expected);
}

TEST(Multicast, of_a_single_member_is_done_at_once) {
  Communicator world = Communicator::world();
  int value = 42;
  Operation operation = world.start_multicast({}, &value, sizeof value, 0, {});
  EXPECT_TRUE(operation.done());
  world.wait(operation);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(world.sent_bytes(), (LinkBytes{0, 0}));
}

TEST(Multicast, of_zero_bytes_still_waits_for_the_root) {
  Communicator world = Communicator::world();
  if (world.size() < 2 || world.rank() > 1) return;
  const std::vector<Edge> edge{{0, 1}};
  const auto event = std::make_shared<ManualEvent>();
  Operation operation = world.start_multicast(edge, nullptr, 0, 0, world.rank() == 0 ? Event(event) : Event());
  for (int i = 0; i < 1000; ++i) world.progress();
  EXPECT_FALSE(operation.done());
  int token = 0;  // the root lets go only after rank 1 has looked
  if (world.rank() == 1) MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (world.rank() == 0) MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  event->set();
  world.wait(operation);
}

// A kernel still writes the root's data and still reads the member's buffer when both start.
TEST(Multicast, touches_no_buffer_before_its_event) {
  Communicator world = small_chunks();
  if (world.size() < 2 || world.rank() > 1) return;
  const std::vector<Edge> edge{{0, 1}};
  Bytes data(20000, std::byte{1});
  const auto event = std::make_shared<ManualEvent>();
  Operation operation = world.start_multicast(edge, data.data(), std::ssize(data), 5, Event(event));
  std::thread kernel([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(world.rank() == 0 ? 20 : 60));
    for (const std::byte byte : data) EXPECT_EQ(byte, std::byte{1});
    if (world.rank() == 0) std::fill(data.begin(), data.end(), std::byte{2});
    event->set();
  });
  world.wait(operation);
  kernel.join();
  EXPECT_TRUE(data == Bytes(20000, std::byte{2}));
}

std::string failure_of(Communicator& world, Operation& operation) {
  try {
    world.wait(operation);
    return "no failure";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::runtime_fault);
    return error.what();
  }
}

/// Rank 0 sends `sent` bytes where rank 1 expects `expected`. Above the chunk
/// limit both are pieces; large ones go by rendezvous, small ones eagerly.
void expect_mismatch(std::int64_t sent, std::int64_t expected, std::int64_t chunk) {
  SCOPED_TRACE(testing::Message() << sent << " bytes sent, " << expected << " expected");
  CommunicatorSettings settings = CommunicatorSettings::from_environment();
  settings.chunk_bytes = chunk;
  Communicator world = Communicator::world(settings);
  const std::vector<Edge> edge{{0, 1}};
  Bytes data(static_cast<std::size_t>(std::max(sent, expected)));
  if (world.rank() < 2) {
    Operation operation = world.start_multicast(edge, data.data(), world.rank() == 0 ? sent : expected, 9, Event());
    if (world.rank() == 0) {
      try {
        world.wait(operation);  // whether a sender learns of it is MPI's choice
      } catch (const Error&) {
      }
    } else {
      const std::string message = failure_of(world, operation);
      for (const char* part : {"rank 1 ", "rank 0 ", "tag 9", "expected", "received"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(std::min(expected, chunk))), std::string::npos) << message;
      EXPECT_THROW(world.progress(), Error) << "a fault is for good";
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Multicast, reports_a_message_of_the_wrong_size) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) return;
  expect_mismatch(100, 200, 1 << 20);
  expect_mismatch(200, 100, 1 << 20);
  expect_mismatch(0, 8, 1 << 20);
  expect_mismatch(500000, 600000, 1 << 20);
  expect_mismatch(600000, 500000, 1 << 20);
  expect_mismatch(5000, 10000, 20000);
}

std::string refusal(Communicator& world, const std::vector<Edge>& edges, int tag, std::int64_t bytes = 0) {
  try {
    (void)world.start_multicast(edges, nullptr, bytes, tag, {});
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Multicast, refuses_tags_ranks_and_trees_that_do_not_fit) {
  Communicator world = Communicator::world();
  const Rank self = world.rank();
  const int size = world.size();
  EXPECT_NE(refusal(world, {}, -1).find("tag -1"), std::string::npos);
  ASSERT_LT(world.max_tag(), std::numeric_limits<int>::max());
  EXPECT_NE(refusal(world, {}, world.max_tag() + 1).find("fewer micro-batches"), std::string::npos);
  EXPECT_NE(refusal(world, {}, 1, -5).find("-5 bytes"), std::string::npos);
  EXPECT_NE(refusal(world, {{self, size}}, 1).find("does not fit"), std::string::npos);
  EXPECT_NE(refusal(world, {{self, self}}, 1).find("does not fit"), std::string::npos);
  if (size < 3) return;
  const Rank next = (self + 1) % size;
  const Rank after = (self + 2) % size;
  EXPECT_NE(refusal(world, {{next, after}}, 1).find("not a member"), std::string::npos);
  EXPECT_NE(refusal(world, {{next, self}, {after, self}}, 1).find("receive twice"), std::string::npos);
}

}  // namespace
}  // namespace sluice
