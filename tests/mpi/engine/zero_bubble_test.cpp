// Zero-bubble schedules train the same model as one rank does, bit for bit.
#include <gtest/gtest.h>

#include "runtime/device/fake/fake_device.h"
#include "tests/mpi/engine/equality.h"

namespace sluice {
namespace {

TEST_F(Equality, of_zb_h1_with_joint_and_independent_cuts) {
  use(small_model(2), 5 * 8 * 2);
  for (const int m : {1, 2, 3, 4, 5, 8})
    for (const Cuts& cuts : kCuts)
      for (const int k : {1, 2, 3, 4}) {
        SCOPED_TRACE(text(cuts.name, ", ", k, " workers, M = ", m));
        expect_equal(plan("zb-h1", m, shifted(k, cuts.shift)), task(m), *host_);
      }
}

TEST_F(Equality, of_zb_h1_with_three_owners) {
  use(small_model(2), 5 * 8 * 2);
  for (const int m : {1, 3, 8})
    for (const int k : {2, 3, 4})
      for (const int shift : {2, -2}) {
        SCOPED_TRACE(text(k, " workers, M = ", m, ", shift ", shift));
        std::vector<Stage> stages;
        append(stages, Work::forward, bounds(layers(), k, shift));
        append(stages, Work::backward_input, bounds(layers(), k, 0));
        append(stages, Work::backward_weight, bounds(layers(), k, -shift));
        for (Stage& stage : stages)
          if (stage.work == Work::backward_weight) stage.owners[0] = (stage.owners[0] + 1) % k;
        expect_equal(plan("zb-h1", m, stages), task(m), *host_);
      }
}

/// Positions j and 2 K - 1 - j on rank j.
std::vector<Stage> vee(int layers, int ranks, int shift) {
  std::vector<Stage> stages;
  append(stages, Work::forward, bounds(layers, 2 * ranks, shift));
  append(stages, Work::backward, bounds(layers, 2 * ranks, -shift));
  for (Stage& stage : stages) stage.owners = {std::min(stage.index, 2 * ranks - 1 - stage.index)};
  return stages;
}

TEST_F(Equality, of_zb_v) {
  use(small_model(2), 5 * 8 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 5});
  for (const int m : {1, 2, 3, 4, 5, 8})
    for (const int shift : {0, 1, -1})
      for (const int k : {1, 2, 3, 4}) {
        SCOPED_TRACE(text(k, " ranks, M = ", m, ", shift ", shift));
        expect_equal(plan("zb-v", m, vee(layers(), k, shift)), task(m), k == 3 ? *fake : *host_);
      }
}

TEST_F(Equality, of_zero_bubble_schedules_with_recomputation) {
  use(small_model(2), 5 * 5 * 2);
  for (const int m : {2, 5})
    for (const int share : {1, 2}) {
      SCOPED_TRACE(text("M = ", m, ", every ", share));
      expect_equal(plan("zb-h1", m, with_recomputes(shifted(4, 1), share)), task(m), *host_);
      expect_equal(plan("zb-v", m, with_recomputes(vee(layers(), 3, 0), share)), task(m), *host_);
    }
}

}  // namespace
}  // namespace sluice
