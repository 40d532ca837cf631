#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "core/error.h"
#include "core/moves.h"
#include "core/text.h"
#include "runtime/comm/communicator.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace sluice {
namespace {

constexpr std::int64_t kChunk = 4096;

Communicator small_chunks() { return with_chunks_of(kChunk); }

/// A multicast of the tests: all ranks draw the same one, only the root knows the payload.
struct Call {
  Group group;
  Route route;
  Bytes data;
};

Route random_route(std::mt19937& random, std::span<const Algorithm> algorithms) {
  constexpr std::int64_t kSegments[] = {0, 1000, kChunk, 3 * kChunk + 1};
  return {.algorithm = algorithms[random() % algorithms.size()],
          .segment_bytes = kSegments[random() % std::size(kSegments)]};
}

Call random_call(std::mt19937& random, const Communicator& world,
                 std::span<const Algorithm> algorithms = algorithms(CollectiveKind::multicast)) {
  constexpr std::size_t kSizes[] = {0, 1, 7, 1000, kChunk - 1, kChunk, kChunk + 1, 5 * kChunk - 3, 300001};
  Call call;
  call.group = random_group(random, world.size());
  call.route = random_route(random, algorithms);
  const std::size_t bytes = kSizes[random() % std::size(kSizes)];
  const unsigned seed = static_cast<unsigned>(random());
  call.data = world.rank() == call.group.root ? random_bytes(bytes, seed) : Bytes(bytes);
  return call;
}

/// Those whose members may start in any order: all but MPI's own.
std::vector<Algorithm> in_any_order() {
  const auto all = algorithms(CollectiveKind::multicast);
  std::vector<Algorithm> chosen(all.begin(), all.end());
  std::erase(chosen, Algorithm::mpi);
  return chosen;
}

Operation start(Communicator& world, Call& call, int tag, Event ready = {}) {
  const auto part =
      world.prepare(CollectiveKind::multicast, call.group, call.route, std::ssize(call.data), cluster_of(world));
  return world.start(part, call.data.data(), tag, std::move(ready));
}

/// What plain MPI_Bcast delivers from the root's data.
Bytes broadcast_by_mpi(const Call& call, Rank root_in_world) {
  Bytes data = call.data;
  MPI_Bcast(data.data(), static_cast<int>(data.size()), MPI_BYTE, root_in_world, MPI_COMM_WORLD);
  return data;
}

Bytes broadcast_by_mpi(const Call& call) { return broadcast_by_mpi(call, call.group.root); }

std::string describe(const Call& call) {
  return text(to_string(call.route.algorithm), ", segments of ", call.route.segment_bytes, ", ", call.data.size(),
              " bytes, root ", call.group.root, " of ", call.group.members.size());
}

TEST(Multicast, delivers_what_a_plain_broadcast_delivers) {
  Communicator world = small_chunks();
  for (unsigned seed = 0; seed < 80; ++seed) {
    std::mt19937 random(seed);
    Call call = random_call(random, world);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << describe(call));
    const Bytes expected = broadcast_by_mpi(call);
    if (!is_member(call.group, world.rank())) continue;
    Operation operation = start(world, call, static_cast<int>(seed));
    world.wait(operation);
    ASSERT_TRUE(call.data == expected);
  }
}

TEST(Multicast, delivers_wherever_the_ranks_sit) {
  const Communicator world = small_chunks();
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Rank> order = random_order(random, world.size());
    Communicator placed = world.permuted(order);
    for (int i = 0; i < 15; ++i) {
      Call call = random_call(random, placed);
      SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << describe(call));
      const Bytes expected = broadcast_by_mpi(call, order[static_cast<std::size_t>(call.group.root)]);
      if (!is_member(call.group, placed.rank())) continue;
      Operation operation = start(placed, call, i);
      placed.wait(operation);
      ASSERT_TRUE(call.data == expected);
    }
  }
}

TEST(Multicast, of_every_algorithm_reaches_everyone_from_every_root) {
  Communicator world = small_chunks();
  Group everyone{.members = std::vector<Rank>(static_cast<std::size_t>(world.size()))};
  std::iota(everyone.members.begin(), everyone.members.end(), 0);
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast))
    for (everyone.root = 0; everyone.root < world.size(); ++everyone.root)
      for (const std::int64_t segment : {0, 999}) {
        const Bytes expected = random_bytes(2 * kChunk + 3, static_cast<unsigned>(everyone.root));
        Call call{everyone, {algorithm, segment}, world.rank() == everyone.root ? expected : Bytes(expected.size())};
        Operation operation = start(world, call, 0);
        world.wait(operation);
        ASSERT_TRUE(call.data == expected) << describe(call);
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
      calls.push_back(random_call(random, world, in_any_order()));
      expected.push_back(broadcast_by_mpi(calls.back()));
    }
    std::vector<std::size_t> order(calls.size());
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 own(seed * 100 + static_cast<unsigned>(world.rank()));
    std::shuffle(order.begin(), order.end(), own);
    std::vector<Operation> operations(calls.size());
    for (const std::size_t i : order)
      if (is_member(calls[i].group, world.rank())) operations[i] = start(world, calls[i], static_cast<int>(i));
    std::shuffle(order.begin(), order.end(), own);
    for (const std::size_t i : order) {
      world.wait(operations[i]);
      const bool member = is_member(calls[i].group, world.rank());
      ASSERT_TRUE(!member || calls[i].data == expected[i]) << "call " << i << ": " << describe(calls[i]);
    }
  }
}

// MPI pairs the calls of a group by their order, and buffers become ready in another one.
TEST(Multicast, by_mpi_keeps_the_order_of_starts_whatever_is_ready_first) {
  Communicator world = small_chunks();
  std::mt19937 random(2);
  std::vector<Call> calls;
  std::vector<Bytes> expected;
  std::vector<std::shared_ptr<ManualEvent>> events;
  Group group = random_group(random, world.size());
  for (int i = 0; i < 20; ++i) {
    Call call = random_call(random, world, std::vector{Algorithm::mpi});
    if (i % 3 > 0) {  // most in one group
      call.group = group;
      call.data = world.rank() == group.root ? random_bytes(call.data.size(), static_cast<unsigned>(i))
                                             : Bytes(call.data.size());
    }
    expected.push_back(broadcast_by_mpi(call));
    calls.push_back(std::move(call));
    events.push_back(std::make_shared<ManualEvent>());
  }
  std::vector<Operation> operations(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (is_member(calls[i].group, world.rank()))
      operations[i] = start(world, calls[i], static_cast<int>(i), Event(events[i]));
  std::mt19937 own(static_cast<unsigned>(world.rank()));
  std::shuffle(events.begin(), events.end(), own);
  for (const auto& event : events) {
    event->set();
    world.progress();
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    world.wait(operations[i]);
    const bool member = is_member(calls[i].group, world.rank());
    ASSERT_TRUE(!member || calls[i].data == expected[i]) << "call " << i << ": " << describe(calls[i]);
  }
}

TEST(Multicast, counts_the_bytes_of_its_moves_by_link_class) {
  Communicator world = small_chunks();
  const Cluster cluster = cluster_of(world);
  LinkBytes sent{};
  LinkBytes received{};
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    Call call = random_call(random, world);
    if (!is_member(call.group, world.rank())) continue;
    const std::vector<Move> moves = multicast_moves(call.group, call.route, std::ssize(call.data), cluster);
    Operation operation = start(world, call, i);
    world.wait(operation);
    EXPECT_EQ(operation.sent_bytes(), bytes_of(moves, world.rank(), true, cluster)) << describe(call);
    EXPECT_EQ(operation.received_bytes(), bytes_of(moves, world.rank(), false, cluster)) << describe(call);
    add(sent, operation.sent_bytes());
    add(received, operation.received_bytes());
  }
  EXPECT_EQ(world.sent_bytes(), sent);
  EXPECT_EQ(world.received_bytes(), received);
}

TEST(Multicast, enters_each_remote_node_once_when_aware_of_nodes) {
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast)) {
    if (!aware_of_nodes(algorithm)) continue;
    Communicator world = small_chunks();
    Group everyone{.root = 0, .members = std::vector<Rank>(static_cast<std::size_t>(world.size()))};
    std::iota(everyone.members.begin(), everyone.members.end(), 0);
    Call call{everyone, {algorithm, 3000}, Bytes(10000)};
    Operation operation = start(world, call, 0);
    world.wait(operation);
    double received = static_cast<double>(world.received_bytes()[static_cast<std::size_t>(LinkKind::inter_node)]);
    double total = 0;
    MPI_Allreduce(&received, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(total, 10000.0 * static_cast<double>(world.node_names().size() - 1)) << to_string(algorithm);
  }
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
    exchange.sending = start_message(world, {world.rank(), peer}, exchange.out.data(), kBytes, tag(world.rank(), peer));
    exchange.receiving =
        start_message(world, {peer, world.rank()}, exchange.in.data(), kBytes, tag(peer, world.rank()));
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
  if (!is_member(call.group, world.rank())) return;
  Operation operation = start(world, call, 0);
  while (!operation.done()) world.progress();
  EXPECT_TRUE(call.data == expected);
}

TEST(Multicast, of_a_single_member_is_done_at_once) {
  Communicator world = Communicator::world();
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast)) {
    Call call{{.root = world.rank(), .members = {world.rank()}}, {algorithm, 3}, Bytes(7, std::byte{42})};
    Operation operation = start(world, call, 0);
    EXPECT_TRUE(operation.done()) << describe(call);
    world.wait(operation);
    EXPECT_EQ(call.data, Bytes(7, std::byte{42}));
  }
  EXPECT_EQ(world.sent_bytes(), (LinkBytes{0, 0}));
}

TEST(Multicast, of_zero_bytes_still_waits_for_the_root) {
  Communicator world = Communicator::world();
  if (world.size() < 2 || world.rank() > 1) return;
  const auto event = std::make_shared<ManualEvent>();
  Operation operation = start_message(world, {0, 1}, nullptr, 0, 0, world.rank() == 0 ? Event(event) : Event());
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
  Bytes data(20000, std::byte{1});
  const auto event = std::make_shared<ManualEvent>();
  Operation operation = start_message(world, {0, 1}, data.data(), std::ssize(data), 5, Event(event));
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
  Communicator world = with_chunks_of(chunk);
  Bytes data(static_cast<std::size_t>(std::max(sent, expected)));
  if (world.rank() < 2) {
    Operation operation = start_message(world, {0, 1}, data.data(), world.rank() == 0 ? sent : expected, 9);
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

// What is sent and not yet received lies in the sender's slot, however small it is: MPI buffers nothing for long.
TEST(Multicast, is_done_at_the_sender_only_when_the_receiver_has_begun_it) {
  Communicator world = Communicator::world();
  if (world.size() < 2 || world.rank() > 1) return;
  constexpr int kCalls = 50, kBegun = 7;
  std::vector<Bytes> data(kCalls, Bytes(64));
  std::vector<Operation> operations;
  const auto done = [&] {
    return std::count_if(operations.begin(), operations.end(), [](const Operation& o) { return o.done(); });
  };
  const auto start_to = [&](int end) {
    for (int i = static_cast<int>(operations.size()); i < end; ++i)
      operations.push_back(start_message(world, {0, 1}, data[static_cast<std::size_t>(i)].data(), 64, i));
  };
  const auto settle_and_count = [&] {  // both look when all that can move has moved, and neither goes on before
    int token = 0;
    Operation there = start_message(world, {0, 1}, &token, sizeof token, 1000);
    Operation back = start_message(world, {1, 0}, &token, sizeof token, 1001);
    world.wait(there);
    world.wait(back);
    for (int i = 0; i < 1000; ++i) world.progress();
    const auto count = done();
    MPI_Sendrecv_replace(&token, 1, MPI_INT, 1 - world.rank(), 0, 1 - world.rank(), 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    return count;
  };
  if (world.rank() == 0) start_to(kCalls);
  EXPECT_EQ(settle_and_count(), 0);
  if (world.rank() == 1) start_to(kBegun);
  EXPECT_EQ(settle_and_count(), kBegun);
  start_to(kCalls);
  for (Operation& operation : operations) world.wait(operation);
}

std::string refusal(Communicator& world, const Group& group, std::int64_t bytes = 0) {
  try {
    (void)world.prepare(CollectiveKind::multicast, group, {}, bytes, cluster_of(world));
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Multicast, refuses_tags_that_do_not_fit) {
  Communicator world = Communicator::world();
  const auto refused = [&](int tag) {
    Call call{{.root = world.rank(), .members = {world.rank()}}, {}, {}};
    try {
      (void)start(world, call, tag);
      return std::string("accepted");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(refused(-1).find("tag -1"), std::string::npos);
  ASSERT_LT(world.max_tag(), std::numeric_limits<int>::max());
  EXPECT_NE(refused(world.max_tag() + 1).find("fewer micro-batches"), std::string::npos);
}

TEST(Multicast, refuses_groups_and_sizes_that_do_not_fit) {
  Communicator world = Communicator::world();
  const Rank self = world.rank();
  const int size = world.size();
  EXPECT_NE(refusal(world, {self, {self}}, -5).find("-5 bytes"), std::string::npos);
  EXPECT_NE(refusal(world, {self, {self, size}}).find("does not fit"), std::string::npos);
  EXPECT_NE(refusal(world, {self, {-1, self}}).find("does not fit"), std::string::npos);
  if (size < 2) return;
  const Rank next = (self + 1) % size;
  EXPECT_NE(refusal(world, {next, {next}}).find("not a member"), std::string::npos);
  EXPECT_NE(refusal(world, {next, {self}}).find("not a member"), std::string::npos);
}

}  // namespace
}  // namespace sluice
