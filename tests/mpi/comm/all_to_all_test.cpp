#include <gtest/gtest.h>
#include <mpi.h>

#include "core/text.h"
#include "runtime/comm/communicator.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace sluice {
namespace {

/// An all-to-all of the tests: all ranks draw the same one, each knows its own blocks.
struct Exchange {
  Group group;
  Route route;
  std::int64_t block = 0;
  Bytes sent, received;
};

Exchange random_exchange(std::mt19937& random, const Communicator& world) {
  constexpr std::int64_t kBlocks[] = {0, 1, 7, 1000, 4096, 4097, 30001};
  const auto known = algorithms(CollectiveKind::all_to_all);
  Exchange exchange{.group = random_group(random, world.size()),
                    .route = {.algorithm = known[random() % known.size()]},
                    .block = kBlocks[random() % std::size(kBlocks)],
                    .sent = {},
                    .received = {}};
  const auto bytes = exchange.group.members.size() * static_cast<std::size_t>(exchange.block);
  exchange.sent = random_bytes(bytes, static_cast<unsigned>(random()) + static_cast<unsigned>(world.rank()));
  exchange.received.resize(bytes);
  return exchange;
}

std::string describe(const Exchange& exchange) {
  return text(to_string(exchange.route.algorithm), ", blocks of ", exchange.block, " between ",
              exchange.group.members.size());
}

Operation start(Communicator& world, Exchange& exchange, int tag) {
  const auto part =
      world.prepare(CollectiveKind::all_to_all, exchange.group, exchange.route, exchange.block, cluster_of(world));
  return world.start_all_to_all(part, exchange.sent.data(), exchange.received.data(), tag, {});
}

/// What MPI_Alltoall delivers. Collective over all ranks; `rank` is this one's in `order` of MPI's.
Bytes exchanged_by_mpi(const Exchange& exchange, Rank rank) {
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_member(exchange.group, rank) ? 0 : MPI_UNDEFINED, rank, &group);
  Bytes received(exchange.sent.size());
  if (group == MPI_COMM_NULL) return received;
  const int block = static_cast<int>(exchange.block);
  MPI_Alltoall(exchange.sent.data(), block, MPI_BYTE, received.data(), block, MPI_BYTE, group);
  MPI_Comm_free(&group);
  return received;
}

TEST(AllToAll, delivers_what_a_plain_one_delivers_wherever_the_ranks_sit) {
  const Communicator world = with_chunks_of(4096);
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    Communicator placed = world.permuted(random_order(random, world.size()));
    Exchange exchange = random_exchange(random, placed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << describe(exchange));
    const Bytes expected = exchanged_by_mpi(exchange, placed.rank());
    if (!is_member(exchange.group, placed.rank())) continue;
    Operation operation = start(placed, exchange, 3);
    placed.wait(operation);
    ASSERT_TRUE(exchange.received == expected);
  }
}

TEST(AllToAll, keeps_many_apart_that_every_rank_starts_in_its_own_order) {
  Communicator world = with_chunks_of(4096);
  std::mt19937 random(5);
  std::vector<Exchange> exchanges;
  std::vector<Bytes> expected;
  for (int i = 0; i < 20; ++i) {
    exchanges.push_back(random_exchange(random, world));
    expected.push_back(exchanged_by_mpi(exchanges.back(), world.rank()));
  }
  std::mt19937 own(static_cast<unsigned>(world.rank()));
  std::vector<Operation> operations(exchanges.size());
  for (const int i : random_order(own, 20)) {
    const auto index = static_cast<std::size_t>(i);
    if (is_member(exchanges[index].group, world.rank())) operations[index] = start(world, exchanges[index], i);
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    world.wait(operations[i]);
    if (!is_member(exchanges[i].group, world.rank())) continue;
    ASSERT_TRUE(exchanges[i].received == expected[i]) << describe(exchanges[i]);
  }
}

TEST(AllToAll, counts_the_bytes_of_its_moves_by_link_class) {
  Communicator world = with_chunks_of(4096);
  const Cluster cluster = cluster_of(world);
  std::mt19937 random(11);
  for (int i = 0; i < 30; ++i) {
    Exchange exchange = random_exchange(random, world);
    if (!is_member(exchange.group, world.rank())) continue;
    const std::vector<Move> moves = all_to_all_moves(exchange.group, exchange.route, exchange.block, cluster);
    Operation operation = start(world, exchange, i);
    world.wait(operation);
    EXPECT_EQ(operation.sent_bytes(), bytes_of(moves, world.rank(), true, cluster)) << describe(exchange);
    EXPECT_EQ(operation.received_bytes(), bytes_of(moves, world.rank(), false, cluster)) << describe(exchange);
  }
}

TEST(AllToAll, of_a_single_member_copies) {
  Communicator world = Communicator::world();
  for (const Algorithm algorithm : algorithms(CollectiveKind::all_to_all)) {
    Exchange exchange{{world.rank(), {world.rank()}}, {algorithm}, 9, random_bytes(9, 1), Bytes(9)};
    Operation operation = start(world, exchange, 0);
    world.wait(operation);
    EXPECT_EQ(exchange.received, exchange.sent);
    EXPECT_EQ(world.sent_bytes(), (LinkBytes{0, 0}));
  }
}

// Every block enters a node once, all that two nodes exchange in one message each way.
TEST(AllToAll, hierarchical_sends_one_message_for_each_pair_of_nodes) {
  const Communicator world = Communicator::world();
  const Cluster cluster = cluster_of(world);
  Group everyone{.root = 0, .members = {}};
  for (Rank rank = 0; rank < world.size(); ++rank) everyone.members.push_back(rank);
  std::int64_t messages = 0, blocks = 0, pairs = 0;
  for (const Move& move : all_to_all_moves(everyone, {.algorithm = Algorithm::hierarchical}, 1, cluster))
    if (link_between(cluster, move.from, move.to) == LinkKind::inter_node) ++messages, blocks += move.bytes;
  for (Rank a = 0; a < world.size(); ++a)
    for (Rank b = 0; b < world.size(); ++b) pairs += link_between(cluster, a, b) == LinkKind::inter_node ? 1 : 0;
  const std::int64_t nodes = std::ssize(world.node_names());
  EXPECT_EQ(messages, nodes * (nodes - 1));
  EXPECT_EQ(blocks, pairs);
}

}  // namespace
}  // namespace sluice
