#include "optimizer/planner/auto_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/schedule.h"
#include "core/text.h"
#include "core/verifier.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::RandomCase;

bool mentions(const std::vector<std::string>& notes, const std::string& words) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(words) != std::string::npos; });
}

PlannerRequest request_for(const Profile& profile, const Cluster& cluster) {
  PlannerRequest request;
  request.profiles = {profile};
  request.cluster = cluster;
  request.schedule = kAutoSchedule;
  request.microbatches = 4;
  return request;
}

TEST(AutoSchedule, is_as_fast_as_the_fastest_and_says_what_the_others_cost_or_why_not) {
  int possible = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(text("seed ", seed));
    RandomCase random(seed);
    const Profile profile = random.profile(random.between(2, 5), random.chance(0.5));
    const std::int64_t memory = random.chance(0.5) ? random.between(300, 1500) : kUnlimitedMemory;
    PlannerRequest request = request_for(profile, random.cluster(random.between(1, 3), true, memory));
    double least_s = std::numeric_limits<double>::infinity();
    std::map<std::string, double> steps;
    for (const Schedule& schedule : schedules()) try {
        if (schedule.asynchronous) continue;
        PlannerRequest one = request;
        one.schedule = schedule.name;
        steps[one.schedule] = make_plan(one).plan.figures.step_s;
        least_s = std::min(least_s, steps[one.schedule]);
      } catch (const Error& error) {
        ASSERT_EQ(error.exit_code(), ExitCode::infeasible) << error.what();
      }
    if (steps.empty()) {
      EXPECT_THROW((void)make_plan(request), Error);
      continue;
    }
    ++possible;
    const PlannerResult chosen = make_plan(request);
    EXPECT_EQ(chosen.plan.figures.step_s, least_s);
    EXPECT_EQ(chosen.plan.schedule, chosen.plan.figures.schedule);
    EXPECT_FALSE(verify(chosen.plan));
    for (const Schedule& schedule : schedules()) {
      const std::string name(schedule.name);
      const bool among_runners_up = std::any_of(
          chosen.plan.runners_up.begin(), chosen.plan.runners_up.end(),
          [&](const PlanFigures& figures) { return figures.schedule == name && figures.step_s == steps[name]; });
      if (schedule.asynchronous || name == chosen.plan.schedule) continue;
      if (steps.contains(name))
        EXPECT_TRUE(among_runners_up && mentions(chosen.notes, text("schedule ", name, " would take"))) << name;
      else
        EXPECT_TRUE(mentions(chosen.notes, text("schedule ", name, " is left out"))) << name;
    }
  }
  EXPECT_GT(possible, 15);
}

TEST(AutoSchedule, prefers_less_memory_where_steps_are_equal) {
  // Equal layers over free links: gpipe and 1f1b take the same time.
  Profile profile = RandomCase(0).profile(3, true);
  for (LayerCost& cost : profile.costs) cost = {.forward_s = 1, .backward_input_s = 2};
  PlannerRequest request = request_for(profile, uniform_cluster(1, 3, {}, {}));
  request.space.exactly = true;
  const PlannerResult chosen = make_plan(request);
  for (const PlanFigures& other : chosen.plan.runners_up)
    if (other.step_s == chosen.plan.figures.step_s) {
      EXPECT_GE(other.peak_memory_bytes, chosen.plan.figures.peak_memory_bytes) << other.schedule;
    }
  EXPECT_NE(chosen.plan.schedule, "gpipe");
}

TEST(AutoSchedule, gives_every_schedules_reason_where_none_is_possible) {
  const PlannerRequest request = request_for(RandomCase(0).profile(3, true), uniform_cluster(1, 2, {}, {}, 1));
  try {
    (void)make_plan(request);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
    for (const Schedule& schedule : schedules())
      if (!schedule.asynchronous) {
        EXPECT_NE(std::string(error.what()).find(text("; ", schedule.name, ": ")), std::string::npos) << error.what();
      }
  }
}

}  // namespace
}  // namespace sluice
