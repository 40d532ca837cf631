// Transfers of which MPI delivers one bit that was not sent (flip_bit.h).
#include <gtest/gtest.h>
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "tests/mpi/comm/comm_test_support.h"
#include "tests/mpi/flip_bit.h"

namespace sluice {
namespace {

constexpr std::int64_t kChunk = 4096;
constexpr int kTag = 5;

/// What came of a collective of all ranks at this one.
struct Outcome {
  std::vector<float> data;
  std::string fault;  ///< empty if there was none
  LinkBytes sent{};
  Rank rank = 0;
};

/// Rank 0 flips a bit of the first message of at least 1000 bytes that it sends.
Outcome run(CollectiveKind kind, Algorithm algorithm, bool verify, bool flip, std::vector<Communicator>& used) {
  Communicator& world = used.emplace_back(with_chunks_of(kChunk));
  if (verify) world.verify_transfers();
  Group everyone{.members = std::vector<Rank>(static_cast<std::size_t>(world.size()))};
  std::iota(everyone.members.begin(), everyone.members.end(), 0);
  Outcome outcome{.data = std::vector<float>(2 * kChunk), .fault = {}, .rank = world.rank()};
  if (kind == CollectiveKind::all_reduce || world.rank() == 0)
    std::iota(outcome.data.begin(), outcome.data.end(), static_cast<float>(world.rank()));
  const std::int64_t bytes = std::ssize(outcome.data) * 4;
  const auto part = world.prepare(kind, everyone, {.algorithm = algorithm}, bytes, cluster_of(world));
  if (flip && world.rank() == 0) flip_bit_of(0, 1000);
  try {
    Operation operation = world.start(part, outcome.data.data(), kTag, {});
    world.wait(operation);
    outcome.sent = operation.sent_bytes();
    world.barrier();
  } catch (const AlarmHeard&) {  // what is not passed on does not come
  } catch (const Error& error) {
    outcome.fault = error.what();
    (void)world.call_off(1);
  }
  return outcome;
}

class Verify : public testing::Test {
 protected:
  Outcome run(CollectiveKind kind, Algorithm algorithm, bool verify, bool flip) {
    return sluice::run(kind, algorithm, verify, flip, used_);
  }
  int ranks_where(bool condition) {
    const std::vector<double> each = apart_.all_gather(std::vector<double>{condition ? 1.0 : 0.0});
    return static_cast<int>(std::count(each.begin(), each.end(), 1.0));
  }

  /// Calls `check` for each algorithm of multicast and all-reduce.
  static void for_each(const std::function<void(CollectiveKind, Algorithm)>& check) {
    for (const CollectiveKind kind : {CollectiveKind::multicast, CollectiveKind::all_reduce})
      for (const Algorithm algorithm : algorithms(kind)) {
        SCOPED_TRACE(text(to_string(kind), " by ", to_string(algorithm)));
        check(kind, algorithm);
      }
  }

  std::vector<Communicator> used_;
  Communicator apart_ = Communicator::world();  ///< for the test itself
};

TEST_F(Verify, is_needed_to_find_it) {
  for_each([&](CollectiveKind kind, Algorithm algorithm) {
    const Outcome right = run(kind, algorithm, false, false), wrong = run(kind, algorithm, false, true);
    EXPECT_EQ(wrong.fault, "");
    EXPECT_GE(ranks_where(wrong.data != right.data), 1);
  });
}

TEST_F(Verify, changes_neither_what_comes_nor_what_is_counted) {
  for_each([&](CollectiveKind kind, Algorithm algorithm) {
    const Outcome plain = run(kind, algorithm, false, false), verified = run(kind, algorithm, true, false);
    EXPECT_EQ(verified.fault, "");
    EXPECT_EQ(verified.data, plain.data);
    EXPECT_EQ(verified.sent, plain.sent);
  });
}

// Last, because messages of these runs stay under way: MPI would give their communicators' contexts to later ones.
TEST_F(Verify, finds_a_flipped_bit_whatever_the_algorithm) {
  for_each([&](CollectiveKind kind, Algorithm algorithm) {
    const Outcome outcome = run(kind, algorithm, true, true);
    const bool finds = outcome.fault.find("are not those that were sent (--verify-transfers)") != std::string::npos;
    const int finders = ranks_where(finds);
    EXPECT_GE(finders, 1);
    if (algorithm != Algorithm::mpi) {
      EXPECT_EQ(finders, 1) << "it was passed on, or added";
    }
    if (!finds) return;
    const char* sender = algorithm == Algorithm::mpi ? "from the root" : "receiving from rank 0 (world rank 0 on ";
    for (const std::string& part : {text("rank ", outcome.rank, " "), std::string(sender), text("tag ", kTag),
                                    std::string("at offset "), text(kChunk, " bytes")})
      EXPECT_NE(outcome.fault.find(part), std::string::npos) << part << " is missing in: " << outcome.fault;
  });
}

}  // namespace
}  // namespace sluice
