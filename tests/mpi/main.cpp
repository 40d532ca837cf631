// GoogleTest under mpiexec: every rank runs the same cases in the same order.
// Rank 0 prints as usual, the others their failures only. A rank whose case
// fails ends the whole job: the others may already wait for it.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>

#include "core/error.h"
#include "runtime/comm/session.h"

namespace {

class FailuresWithRank : public testing::EmptyTestEventListener {
 public:
  explicit FailuresWithRank(int rank) : rank_(rank) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_, result.file_name() ? result.file_name() : "unknown",
                 result.line_number(), result.summary());
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    if (!info.result()->Failed()) return;
    std::fprintf(stderr, "[rank %d] %s.%s failed: ending the job\n", rank_, info.test_suite_name(), info.name());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  try {
    sluice::MpiSession session;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    if (rank != 0) delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresWithRank(rank));
    const int code = RUN_ALL_TESTS();
    session.finish(code);
    return code;
  } catch (const sluice::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
