#include <gtest/gtest.h>
#include <mpi.h>

#include <numeric>

#include "runtime/comm/communicator.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace {

int payload_sends = 0, payload_receives = 0;  // posted by this process

}  // namespace

extern "C" {

int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++payload_sends;
  return PMPI_Issend(data, count, type, to, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  if (type == MPI_BYTE) ++payload_receives;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

}  // extern "C"

namespace sluice {
namespace {

Group everyone(const Communicator& world) {
  Group group{.root = 0, .members = std::vector<Rank>(static_cast<std::size_t>(world.size()))};
  std::iota(group.members.begin(), group.members.end(), 0);
  return group;
}

Operation start(Communicator& world, const Route& route, Bytes& data) {
  const auto part =
      world.prepare(CollectiveKind::multicast, everyone(world), route, std::ssize(data), cluster_of(world));
  return world.start(part, data.data(), 0, {});
}

void let_all_move_that_can(Communicator& world) {
  for (int i = 0; i < 1000; ++i) world.progress();
}

/// Nobody receives what rank 0 has started to send to rank 1, or nobody sends what rank 1 expects.
/// @return what was posted meanwhile: sends at rank 0 when it is `alone`, receives at rank 1 when that one is
int posted_by_one_alone(Rank alone, std::int64_t bytes, std::int64_t segment, std::int64_t chunk, bool verified) {
  Communicator world = with_chunks_of(chunk);
  if (verified) world.verify_transfers();
  const Bytes expected = random_bytes(static_cast<std::size_t>(bytes), 7);
  Bytes data = world.rank() == 0 ? expected : Bytes(expected.size());
  const Route route{.algorithm = Algorithm::chain, .segment_bytes = segment};
  payload_sends = payload_receives = 0;
  Operation operation;
  if (world.rank() == alone) {
    operation = start(world, route, data);
    let_all_move_that_can(world);
  }
  int posted[] = {payload_sends, payload_receives};
  MPI_Bcast(posted, 2, MPI_INT, alone, MPI_COMM_WORLD);
  if (world.rank() != alone) operation = start(world, route, data);
  world.wait(operation);
  EXPECT_TRUE(data == expected);
  return posted[alone];
}

TEST(Window, of_sends_is_64_KiB_or_one_message) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) return;  // for two ranks
  constexpr std::int64_t kLarge = 1 << 30;
  for (const bool verified : {false, true}) {
    const auto sends = [&](std::int64_t bytes, std::int64_t segment, std::int64_t chunk) {
      return posted_by_one_alone(0, bytes, segment, chunk, verified);
    };
    EXPECT_EQ(sends(300000, 10000, kLarge), 6);
    EXPECT_EQ(sends(300000, 1 << 14, kLarge), 4);
    EXPECT_EQ(sends(300000, 40000, kLarge), 1);
    EXPECT_EQ(sends(300000, 100000, kLarge), 1) << "larger than the window: one at a time";
    EXPECT_EQ(sends(300000, 0, kLarge), 1);
    EXPECT_EQ(sends(300000, 0, 4096), 16) << "pieces of one message";
    EXPECT_EQ(sends(3000, 1000, kLarge), 3);
  }
}

TEST(Window, of_receives_is_8_messages) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) return;  // for two ranks
  EXPECT_EQ(posted_by_one_alone(1, 300000, 1000, 1 << 30, false), 8);
  EXPECT_EQ(posted_by_one_alone(1, 300000, 100000, 1 << 30, false), 3);
}

// Rank 2 takes what it is sent, rank 3 does not: the lane fills up with what goes there, place after place.
TEST(Window, of_sends_is_free_again_for_as_much_as_has_arrived) {
  Communicator world = Communicator::world();
  if (world.size() != 4 || world.node_names().size() != 2) return;  // for two nodes of two ranks
  const Group group{.root = 0, .members = {0, 2, 3}};
  const Bytes expected = random_bytes(200000, 9);
  Bytes data = world.rank() == 0 ? expected : Bytes(expected.size());
  const auto start_part = [&] {
    return world.start(
        world.prepare(CollectiveKind::multicast, group, {.algorithm = Algorithm::flat, .segment_bytes = 1000},
                      std::ssize(data), cluster_of(world)),
        data.data(), 0, {});
  };
  Operation operation;
  payload_sends = 0;
  if (world.rank() == 0 || world.rank() == 2) operation = start_part();
  int full = 0;
  const auto is_full = [&] {
    if (world.rank() == 0) full = payload_sends == 2 * 65 ? 1 : 0;  // of 1000 bytes: 65 to rank 3 are in flight
    MPI_Bcast(&full, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return full != 0;
  };
  for (int i = 0; i < 1000 && !is_full(); ++i) let_all_move_that_can(world);
  EXPECT_EQ(full, 1) << payload_sends;
  if (world.rank() == 3) operation = start_part();
  if (!is_member(group, world.rank())) return;
  world.wait(operation);
  EXPECT_TRUE(data == expected);
}

// The root's sends to its own node go on while those to another node cannot.
TEST(Window, of_sends_inside_the_node_is_apart_from_that_across) {
  Communicator world = Communicator::world();
  if (world.size() != 4 || world.node_names().size() != 2) return;  // for two nodes of two ranks
  const Bytes expected = random_bytes(1 << 20, 8);
  Bytes data = world.rank() == 0 ? expected : Bytes(expected.size());
  const Route route{.algorithm = Algorithm::hierarchical, .segment_bytes = 50000};
  Operation operation;
  int token = 0;
  if (world.rank() < 2) operation = start(world, route, data);
  if (world.rank() == 1) {
    world.wait(operation);
    MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  }
  if (world.rank() == 0) {
    MPI_Request heard = MPI_REQUEST_NULL;
    MPI_Irecv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &heard);
    for (int done = 0; done == 0; MPI_Test(&heard, &done, MPI_STATUS_IGNORE)) world.progress();
    EXPECT_FALSE(operation.done());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (world.rank() >= 2) operation = start(world, route, data);
  world.wait(operation);
  EXPECT_TRUE(data == expected);
}

}  // namespace
}  // namespace sluice
