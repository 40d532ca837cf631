#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/index.h"
#include "core/simulator.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/interpreter.h"

namespace sluice {
namespace {

/// All ranks that run a layer with parameters end with the weights that the profile alone demands.
void expect_weights_of_reference(const Plan& plan, const interpreter::FinalState& state) {
  const auto expected = interpreter::expected_weights(plan.profile, plan.microbatches);
  for (const auto& [place, weights] : state.weights) {
    const auto& [rank, layer] = place;
    if (plan.profile.costs[at(layer)].parameter_bytes == 0) continue;
    ASSERT_EQ(weights, expected.at(layer)) << "rank " << rank << ", layer " << layer;
  }
}

TEST(Equality, every_plan_ends_with_the_weights_of_one_rank_at_every_replica) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Plan plan = examples::random_plan(seed);
    const interpreter::Outcome outcome = interpreter::interpret(plan, program(plan, "step"), seed);
    ASSERT_EQ(outcome.fault, "");
    expect_weights_of_reference(plan, outcome.state);
    (void)simulate(plan);
  }
}

/// Shares of the random plans that have a feature, so that no test is without its object.
TEST(Equality, the_random_plans_have_all_features) {
  std::map<std::string, int> plans;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Plan plan = examples::random_plan(seed);
    const auto any = [&](auto has) { return std::any_of(plan.stages.begin(), plan.stages.end(), has) ? 1 : 0; };
    plans["replicas"] += any([](const Stage& stage) { return stage.owners.size() > 1; });
    plans["split backward"] += any([](const Stage& stage) { return stage.work == Work::backward_input; });
    plans["recompute"] += any([](const Stage& stage) { return stage.work == Work::recompute; });
    plans["no interval"] += any(
        [](const Stage& stage) { return stage.layers.back() - stage.layers.front() + 1 != std::ssize(stage.layers); });
    plans["free owners"] += any([&](const Stage& stage) {
      return any([&](const Stage& other) { return stage.index == other.index && stage.owners != other.owners; }) == 1;
    });
    plans["several positions on a rank"] += any([&](const Stage& stage) {
      return any([&](const Stage& other) {
               return stage.work == other.work && stage.index < other.index && owns(stage.owners.front(), other);
             }) == 1;
    });
    plans["more replicas than micro-batches"] +=
        any([&](const Stage& stage) { return std::ssize(stage.owners) > plan.microbatches; });
  }
  for (const auto& [feature, count] : plans) EXPECT_GT(count, 50) << feature;
  EXPECT_EQ(plans.size(), 7U);
}

}  // namespace
}  // namespace sluice
