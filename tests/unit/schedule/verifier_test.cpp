#include "core/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/index.h"
#include "core/liveness.h"
#include "core/text.h"
#include "tests/unit/schedule/examples.h"

namespace sluice {
namespace {

std::string verdict(const Plan& plan) {
  const auto defect = verify(plan);
  return defect ? to_string(*defect) : "passes";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Index of the first instruction of rank `rank` in "step" that prints as `shown`.
int find_cell(const Plan& plan, Rank rank, const std::string& shown) {
  const std::vector<Instruction>& list = program(plan, "step").ranks[at(rank)];
  for (int i = 0; i < std::ssize(list); ++i)
    if (cell(plan, list[at(i)]) == shown) return i;
  ADD_FAILURE() << "no cell " << shown << " at rank " << rank;
  return 0;
}

TEST(Verifier, passes_every_plan_that_we_build) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    const Plan plan = examples::random_plan(seed);
    ASSERT_EQ(verdict(plan), "passes") << "seed " << seed;
  }
}

TEST(Verifier, names_rank_instruction_and_reason_and_shows_the_grid) {
  Plan plan = examples::textbook_plan("1f1b", 3, 4);
  std::vector<Instruction>& list = plan.programs[0].ranks[1];
  const int place = find_cell(plan, 1, "1B0");
  std::swap(list[at(place)], list[at(find_cell(plan, 1, "1B1"))]);
  const std::string message = verdict(plan);
  EXPECT_TRUE(contains(message, text("program step, rank 1, instruction ", place, " (1B1): "))) << message;
  EXPECT_TRUE(contains(message, "micro-batch 0 of the stage is due")) << message;
  EXPECT_TRUE(contains(message, "[1B1]")) << message;
  EXPECT_TRUE(contains(message, "rank 2")) << message;
}

}  // namespace
}  // namespace sluice
