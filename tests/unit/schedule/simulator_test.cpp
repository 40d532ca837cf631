#include "core/simulator.h"

#include <gtest/gtest.h>

#include "core/cost_model.h"
#include "core/index.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

TEST(Simulator, gives_the_closed_forms_of_equal_stages_and_free_links) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (int workers = 1; workers <= 8; ++workers)
      for (const int microbatches : {1, 2, 3, 4, 5, 7, 8, 16, 33})
        for (const auto& [forward_ns, backward_ns] : {std::pair{1, 1}, {1, 2}, {7, 11}, {1'234'567, 7'654'321}}) {
          SCOPED_TRACE(testing::Message() << schedule << ", K=" << workers << ", M=" << microbatches);
          const Plan plan =
              examples::textbook_plan(schedule, workers, microbatches, 1e-9 * forward_ns, 1e-9 * backward_ns);
          const Timeline timeline = simulate(plan);
          const std::int64_t slots = microbatches + workers - 1;
          EXPECT_EQ(makespan_ns(timeline), slots * (forward_ns + backward_ns));
          EXPECT_NEAR(bubble_fraction(timeline, program(plan, "step")), (workers - 1.0) / static_cast<double>(slots),
                      1e-12);
        }
}

TEST(Simulator, brings_random_plans_to_their_end) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_plan(seed);
    ASSERT_NO_THROW(validate(plan));
    ASSERT_NO_THROW((void)simulate(plan, "step"));
    ASSERT_NO_THROW((void)simulate(plan, "evaluate"));
  }
}

}  // namespace
}  // namespace sluice
