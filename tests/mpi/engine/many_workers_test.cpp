// As equality_test, for eight workers.
#include "tests/mpi/engine/equality.h"

namespace sluice {
namespace {

TEST_F(Equality, holds_for_eight_workers) {
  use(small_model(2), 5 * 8 * 2);
  expect_all_equal({8}, {1, 3, 8}, *host_, Algorithm::hierarchical);
}

TEST_F(Equality, holds_up_to_rounding_for_eight_workers_of_which_each_has_replicas) {
  use(small_model(2), 5 * 7 * 2);
  std::vector<Stage> stages;
  append(stages, Work::forward, bounds(layers(), 3, 0), {{0, 1, 2}, {3, 4, 5}, {6, 7}});
  append(stages, Work::backward_input, bounds(layers(), 3, 1), {{7, 6}, {0, 2, 4}, {5, 3, 1}});
  append(stages, Work::backward_weight, bounds(layers(), 3, -1), {{1, 2, 3, 4}, {5, 6}, {7, 0}});
  expect_close(plan("1f1b", 7, stages), task(7), *host_);
}

}  // namespace
}  // namespace sluice
