// interleaved-1f1b trains the same model as one rank does, bit for bit; chimera, which sums gradients over two
// replicas, up to rounding, and the same bits in every run.
#include <gtest/gtest.h>

#include "core/schedule.h"
#include "runtime/device/fake/fake_device.h"
#include "tests/mpi/engine/equality.h"

namespace sluice {
namespace {

std::vector<Stage> placed(const std::string& schedule, int layers, int ranks, int chunks, int shift) {
  const Placement placement = schedule_named(schedule).placement;
  const int positions = positions_of(placement, ranks, chunks);
  std::vector<Stage> stages;
  append(stages, Work::forward, bounds(layers, positions, shift));
  append(stages, Work::backward, bounds(layers, positions, -shift));
  for (Stage& stage : stages) stage.owners = owners_at(placement, stage.index, ranks);
  return stages;
}

TEST_F(Equality, of_interleaved_1f1b) {
  use(small_model(2), 5 * 8 * 2);
  const std::unique_ptr<Device> fake = create_fake_device(create_host_device(), {.seed = 6});
  for (const int m : {1, 2, 3, 5, 8})
    for (const int shift : {0, 1, -1})
      for (const int k : {1, 2, 3, 4})
        for (const int chunks : {2, 3}) {
          if (chunks == 3 && shift != 0) continue;
          SCOPED_TRACE(text(k, " ranks, ", chunks, " chunks, M = ", m, ", shift ", shift));
          const std::vector<Stage> stages = placed("interleaved-1f1b", layers(), k, chunks, shift);
          expect_equal(plan("interleaved-1f1b", m, stages), task(m), k == 3 ? *fake : *host_);
        }
}

TEST_F(Equality, of_interleaved_1f1b_with_recomputation) {
  use(small_model(2), 5 * 5 * 2);
  for (const int m : {2, 5}) {
    SCOPED_TRACE(text("M = ", m));
    const std::vector<Stage> stages = with_recomputes(placed("interleaved-1f1b", layers(), 4, 2, 0), 2);
    expect_equal(plan("interleaved-1f1b", m, stages), task(m), *host_);
  }
}

TEST_F(Equality, of_chimera_up_to_rounding) {
  use(small_model(2), 5 * 8 * 2);
  for (const int m : {1, 3, 4, 8})
    for (const int shift : {0, 1})
      for (const int k : {2, 4}) {
        SCOPED_TRACE(text(k, " ranks, M = ", m, ", shift ", shift));
        expect_close(plan("chimera", m, placed("chimera", layers(), k, 1, shift)), task(m), *host_);
      }
}

}  // namespace
}  // namespace sluice
