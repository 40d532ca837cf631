#include "runtime/comm/communicator.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "core/error.h"
#include "tests/mpi/comm/comm_test_support.h"

namespace sluice {
namespace {

TEST(Communicator, agrees_with_mpi_on_ranks_and_shared_memory) {
  const Communicator world = Communicator::world();
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(world.rank(), rank);
  EXPECT_EQ(world.size(), size);

  MPI_Comm shared = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
  int sharing = 0;
  MPI_Comm_size(shared, &sharing);
  MPI_Comm_free(&shared);
  const std::vector<int>& nodes = world.node_of_rank();
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), nodes[static_cast<std::size_t>(rank)]), sharing);
}

TEST(Communicator, sees_as_many_nodes_as_the_test_was_given) {
  const Communicator world = Communicator::world();
  const char* cliques = std::getenv("MPIR_CVAR_NUM_CLIQUES");
  if (cliques == nullptr) GTEST_SKIP() << "not started by CTest";
  EXPECT_EQ(std::ssize(world.node_names()), std::atoi(cliques));
}

TEST(Communicator, numbers_nodes_by_first_appearance_and_names_them_apart) {
  const Communicator world = Communicator::world();
  int next = 0;
  for (const int node : world.node_of_rank()) {
    EXPECT_LE(node, next);
    next = std::max(next, node + 1);
  }
  const std::set<std::string> names(world.node_names().begin(), world.node_names().end());
  EXPECT_EQ(std::ssize(names), next);
}

TEST(Communicator, permuted_renames_ranks_and_their_nodes) {
  const Communicator world = Communicator::world();
  std::vector<Rank> order(static_cast<std::size_t>(world.size()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(4);
  std::shuffle(order.begin(), order.end(), random);
  const Communicator planned = world.permuted(order);

  EXPECT_EQ(order[static_cast<std::size_t>(planned.rank())], world.rank());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto old_rank = static_cast<std::size_t>(order[rank]);
    const auto new_node = static_cast<std::size_t>(planned.node_of_rank()[rank]);
    const auto old_node = static_cast<std::size_t>(world.node_of_rank()[old_rank]);
    EXPECT_EQ(planned.node_names()[new_node], world.node_names()[old_node]);
  }
}

TEST(Communicator, permuted_ranks_talk_under_their_new_names) {
  const Communicator world = Communicator::world();
  if (world.size() < 2) return;
  std::vector<Rank> order(static_cast<std::size_t>(world.size()));
  std::iota(order.rbegin(), order.rend(), 0);
  Communicator reversed = world.permuted(order);
  const Rank last = reversed.size() - 1;
  if (reversed.rank() != 0 && reversed.rank() != last) return;
  int world_rank_of_sender = world.rank();
  Operation operation = start_message(reversed, {0, last}, &world_rank_of_sender, sizeof(int), 0);
  reversed.wait(operation);
  EXPECT_EQ(world_rank_of_sender, world.size() - 1);
}

TEST(Communicator, permuted_refuses_what_is_no_permutation) {
  const Communicator world = Communicator::world();
  const auto size = static_cast<std::size_t>(world.size());
  EXPECT_THROW((void)world.permuted(std::vector<Rank>(size + 1)), Error);
  EXPECT_THROW((void)world.permuted(std::vector<Rank>(size, -1)), Error);
  if (size == 1) return;
  EXPECT_THROW((void)world.permuted(std::vector<Rank>(size, 0)), Error);
}

TEST(Communicator, all_max_takes_each_element_from_where_it_is_largest) {
  Communicator world = Communicator::world();
  std::vector<double> values{static_cast<double>(world.rank()), -1.0 - world.rank(), 0.5};
  world.all_max(values);
  EXPECT_EQ(values, (std::vector<double>{world.size() - 1.0, -1.0, 0.5}));
}

TEST(Communicator, maxima_are_under_way_while_others_begin_and_end) {
  Communicator world = Communicator::world();
  Maxima first = world.start_max({static_cast<double>(world.rank()), 0.5});
  Maxima second = world.start_max({-1.0 * world.rank()});
  world.barrier();
  EXPECT_EQ(world.finish_max(std::move(second)), std::vector<double>{0});
  EXPECT_EQ(world.finish_max(std::move(first)), (std::vector<double>{world.size() - 1.0, 0.5}));
}

TEST(Communicator, all_gather_lists_rank_after_rank) {
  Communicator world = Communicator::world();
  const std::vector<double> mine{world.rank() + 0.25, -2.0 * world.rank()};
  const std::vector<double> all = world.all_gather(mine);
  ASSERT_EQ(std::ssize(all), 2 * world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(all[static_cast<std::size_t>(2 * rank)], rank + 0.25);
    EXPECT_EQ(all[static_cast<std::size_t>(2 * rank + 1)], -2.0 * rank);
  }
  EXPECT_TRUE(world.all_gather({}).empty());
}

TEST(Communicator, broadcast_brings_the_text_of_any_root_whatever_its_length) {
  CommunicatorSettings settings = CommunicatorSettings::from_environment();
  settings.chunk_bytes = 10000;
  Communicator world = Communicator::world(settings);
  for (const std::size_t length : {0, 1, 9999, 10000, 10001, 65537}) {
    for (Rank root = 0; root < world.size(); root += std::max(1, world.size() - 1)) {
      std::string text(length, 'x');
      for (std::size_t i = 0; i < length; ++i)
        text[i] = static_cast<char>((i * 7 + static_cast<std::size_t>(root)) % 256);
      EXPECT_EQ(world.broadcast(world.rank() == root ? text : "ignored", root), text);
    }
  }
}

TEST(Communicator, control_moves_multicasts_on) {
  Communicator world = Communicator::world();
  if (world.size() < 2) return;
  int value = world.rank() == 0 ? 17 : 0;
  Operation operation;
  if (world.rank() < 2) operation = start_message(world, {0, 1}, &value, sizeof value, 0);
  for (int i = 0; i < 1000 && world.all_gather(std::vector<double>{operation.done() ? 1.0 : 0.0})[1] == 0.0; ++i) {
  }
  EXPECT_TRUE(world.rank() != 1 || operation.done());
  world.wait(operation);
}

std::string message_of(const auto& call) {
  try {
    call();
    return "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::runtime_fault);
    return error.what();
  }
}

Communicator impatient() {
  Communicator world = Communicator::world();
  world.set_wait_limit(0.1);
  return world;
}

TEST(WaitLimit, names_the_message_that_does_not_come) {
  Communicator world = impatient();
  if (world.size() < 2) return;
  if (world.rank() == 1) {
    std::vector<char> data(333);
    Operation operation = start_message(world, {0, 1}, data.data(), 333, 12);
    const std::string message = message_of([&] { world.wait(operation); });
    for (const char* part : {"rank 1", "tag 12", "receive from rank 0", "333 bytes", "0.1 s", "SLUICE_WAIT_LIMIT"})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(WaitLimit, names_work_that_does_not_end) {
  Communicator world = impatient();
  if (world.size() < 2) return;
  if (world.rank() == 0) {
    int data = 0;
    Operation operation = start_message(world, {0, 1}, &data, sizeof data, 3, Event(std::make_shared<ManualEvent>()));
    const std::string message = message_of([&] { world.wait(operation); });
    EXPECT_NE(message.find("its buffer is not ready"), std::string::npos) << message;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(WaitLimit, names_work_of_the_device_that_does_not_end) {
  Communicator world = impatient();
  const std::string message =
      message_of([&] { world.wait(Event(std::make_shared<ManualEvent>()), "work of the device"); });
  for (const std::string& part :
       {world.describe(world.rank()), std::string("work of the device"), std::string("0.1 s")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Communicator, describes_a_rank_by_its_number_its_world_rank_and_its_node) {
  const Communicator world = Communicator::world();
  std::vector<Rank> order(static_cast<std::size_t>(world.size()));
  std::iota(order.rbegin(), order.rend(), 0);
  const Communicator reversed = world.permuted(order);
  const Rank last = world.size() - 1;
  const std::string node = world.node_names()[static_cast<std::size_t>(world.node_of_rank().front())];
  EXPECT_EQ(world.describe(0), "rank 0 (world rank 0 on " + node + ")");
  EXPECT_EQ(reversed.describe(last), "rank " + std::to_string(last) + " (world rank 0 on " + node + ")");
  EXPECT_EQ(world.whoami(), reversed.describe(reversed.rank()));
}

TEST(WaitLimit, names_the_collective_that_a_rank_does_not_join) {
  Communicator world = impatient();
  if (world.size() < 2) return;
  if (world.rank() != 0) {
    const std::string message = message_of([&] { world.barrier(); });
    EXPECT_NE(message.find("MPI_Ibarrier over"), std::string::npos) << message;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (world.rank() == 0) world.barrier();  // MPI itself must be left in order
}

TEST(CommunicatorSettings, take_the_wait_limit_from_the_environment) {
  const char* before = std::getenv("SLUICE_WAIT_LIMIT");
  const std::string saved = before ? before : "";
  setenv("SLUICE_WAIT_LIMIT", "2.5", 1);
  EXPECT_EQ(CommunicatorSettings::from_environment().wait_limit_s, 2.5);
  for (const char* bad : {"", "soon", "-1", "3x", "inf", "nan"}) {
    setenv("SLUICE_WAIT_LIMIT", bad, 1);
    EXPECT_THROW((void)CommunicatorSettings::from_environment(), Error) << bad;
  }
  unsetenv("SLUICE_WAIT_LIMIT");
  EXPECT_EQ(CommunicatorSettings::from_environment().wait_limit_s, 300);
  if (before) setenv("SLUICE_WAIT_LIMIT", saved.c_str(), 1);
}

}  // namespace
}  // namespace sluice
