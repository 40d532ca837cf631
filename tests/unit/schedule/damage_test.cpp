#include "tests/unit/schedule/damage.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/verifier.h"
#include "tests/unit/schedule/examples.h"
#include "tests/unit/schedule/interpreter.h"

namespace sluice {
namespace {

/// Empty if two random interleavings of the damaged program end as the intact one did; else what goes wrong.
std::string harm(const Plan& plan, const Program& damaged, const interpreter::FinalState& intact, std::uint64_t seed) {
  std::string harms[2];
  for (std::uint64_t i = 0; i < 2; ++i) {
    const interpreter::Outcome outcome = interpreter::interpret(plan, damaged, 2 * seed + i);
    harms[i] = !outcome.fault.empty() ? outcome.fault : outcome.state == intact ? "" : "another final state";
  }
  EXPECT_EQ(harms[0].empty(), harms[1].empty()) << "the verdict depends on the interleaving, seed " << seed;
  return harms[0];
}

/// Plans of all stages of sequential, gpipe and 1f1b; and of one schedule that places its positions.
struct Case {
  std::string name;
  std::uint64_t seeds;
  Plan (*plan)(std::uint64_t seed);
};

class Damage : public testing::TestWithParam<Case> {};

TEST_P(Damage, is_refused_exactly_when_the_interpreter_finds_harm) {
  const char* rounds = std::getenv("SLUICE_TEST_ROUNDS");  // 1 in the quick run, more when soaking
  const std::uint64_t seeds = GetParam().seeds * (rounds != nullptr ? std::stoull(rounds) : 1);
  std::uint64_t harmless = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    Plan plan = GetParam().plan(seed / 8);
    Program& program = plan.programs[seed % 5 == 0 ? 1 : 0];
    const interpreter::Outcome intact = interpreter::interpret(plan, program, seed);
    ASSERT_EQ(intact.fault, "") << "seed " << seed;
    const std::string done = damage(plan, program, random);
    ASSERT_NO_THROW(validate(plan)) << "seed " << seed << ": " << done;

    const std::string found = harm(plan, program, intact.state, seed);
    const auto defect = verify(plan);
    ASSERT_EQ(defect.has_value(), !found.empty())
        << "seed " << seed << ", program " << program.name << ": " << done << "\ninterpreter: " << found
        << "\nverifier: " << (defect ? to_string(*defect) : "passes");
    harmless += found.empty() ? 1 : 0;
  }
  EXPECT_GT(harmless, seeds / 10) << "too few to show that the verifier lets the harmless pass";
  EXPECT_LT(harmless, seeds / 2) << "too few harmful ones";
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, Damage,
    testing::Values(Case{"slots", 8000, examples::random_plan},
                    Case{"interleaved", 1600,
                         [](std::uint64_t seed) { return examples::random_placed_plan("interleaved-1f1b", seed); }},
                    Case{"chimera", 1600,
                         [](std::uint64_t seed) { return examples::random_placed_plan("chimera", seed); }},
                    Case{"zb_h1", 800, [](std::uint64_t seed) { return examples::random_placed_plan("zb-h1", seed); }},
                    Case{"zb_v", 1600, [](std::uint64_t seed) { return examples::random_placed_plan("zb-v", seed); }},
                    Case{"cooperative", 2000, examples::random_cooperative_plan}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sluice
