#include "optimizer/planner/cooperative_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"
#include "core/simulator.h"
#include "optimizer/planner/fixed_stages.h"
#include "optimizer/planner/planner.h"
#include "optimizer/schedule/build_plan.h"
#include "optimizer/schedule/cooperative.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::RandomCase;

/// All ways to cut `layers` layers for `ranks` ranks.
std::vector<std::vector<int>> all_bounds(int layers, int ranks) {
  if (ranks == 1) return {{0, layers}};
  std::vector<std::vector<int>> all;
  for (int last = ranks - 1; last < layers; ++last)
    for (std::vector<int> bounds : all_bounds(last, ranks - 1)) {
      bounds.push_back(layers);
      all.push_back(bounds);
    }
  return all;
}

double sum_s(const Profile& profile, int begin, int end, Work work) {
  double seconds = 0;
  for (LayerId layer = begin; layer < end; ++layer) seconds += work_time(profile.costs[at(layer)], work);
  return seconds;
}

/// Ranks of speed 1, traffic and updates free.
double step_s(const Profile& profile, const std::vector<int>& bounds, int microbatches) {
  const int ranks = static_cast<int>(bounds.size()) - 1, last = bounds[at(ranks - 1)];
  double busiest = 0;
  for (int k = 0; k < ranks; ++k)
    busiest = std::max(busiest, sum_s(profile, bounds[at(k)], bounds[at(k) + 1], Work::forward) +
                                    sum_s(profile, bounds[at(k)], bounds[at(k) + 1], Work::backward));
  return microbatches_of(0, ranks, microbatches) * sum_s(profile, 0, last, Work::forward) + microbatches * busiest +
         sum_s(profile, 0, last, Work::backward);
}

TEST(CooperativeCuts, have_the_least_step_of_all_cuts) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    RandomCase random(seed);
    Profile profile = random.profile(7, true);
    for (LayerCost& cost : profile.costs) cost.update_s = 0;
    const Cluster cluster = uniform_cluster(1, 4, {}, {});
    const int microbatches = 1 + static_cast<int>(seed % 9);
    const Problem problem{profile, cluster, {"cooperative", microbatches}, {.exactly = true}};
    const std::vector<std::vector<int>> found = cooperative_cuts(problem);
    double least = std::numeric_limits<double>::infinity();
    for (const std::vector<int>& bounds : all_bounds(7, 4))
      least = std::min(least, step_s(profile, bounds, microbatches));
    EXPECT_NEAR(step_s(profile, found[0], microbatches), least, 1e-9 * least) << "seed " << seed;
  }
}

PlannerRequest request_for(const Profile& profile, const Cluster& cluster) {
  PlannerRequest request;
  request.profiles = {profile};
  request.cluster = cluster;
  request.schedule = "cooperative";
  request.microbatches = 4;
  return request;
}

TEST(CooperativeCuts, are_moved_until_no_neighbour_has_a_shorter_step) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    RandomCase random(seed);
    const Profile profile = random.profile(8, true);
    const Cluster cluster = uniform_cluster(2, 2, {1e-6, 1e9}, {1e-5, 1e8});
    const Plan plan = make_plan(request_for(profile, cluster)).plan;
    for (const std::vector<int>& bounds : neighbours(cooperative_bounds(plan.stages))) {
      const Plan other = build_plan({.profile = profile,
                                     .cluster = cluster,
                                     .schedule = "cooperative",
                                     .microbatches = 4,
                                     .stages = cooperative_stages(profile.model, bounds)});
      EXPECT_GE(static_cast<double>(makespan_ns(simulate(other))) * 1e-9, plan.figures.step_s) << "seed " << seed;
    }
    EXPECT_LE(plan.lower_bound_s, plan.figures.bottleneck_s);
    EXPECT_EQ(plan.figures.cuts, "joint");
  }
}

TEST(CooperativeCuts, are_taken_from_the_user_if_they_are_joint) {
  RandomCase random(1);
  const Profile profile = random.profile(8, true);
  PlannerRequest request = request_for(profile, uniform_cluster(1, 3, {}, {}));
  request.fixed_stages = fixed_stages({.forward = std::vector<int>{2, 5}}, 8, 3);
  EXPECT_EQ(cooperative_bounds(make_plan(request).plan.stages), (std::vector<int>{0, 2, 5, 8}));
}

void expect_refused(const PlannerRequest& request, const std::string& part_of_message) {
  try {
    (void)make_plan(request);
    ADD_FAILURE() << "accepted: " << part_of_message;
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
    EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
  }
}

TEST(CooperativeCuts, do_not_combine_with_what_has_no_meaning_for_them) {
  RandomCase random(1);
  const Profile profile = random.profile(8, true);
  const PlannerRequest plain = request_for(profile, uniform_cluster(1, 3, {}, {}));
  PlannerRequest request = plain;
  request.space.most_replicas = 2;
  expect_refused(request, "--replicas");
  request = plain;
  request.space.ideals = true;
  expect_refused(request, "--stages ideals");
  request = plain;
  request.cost = CostModel::pipedream;
  expect_refused(request, "--cost");
  request = plain;
  request.fixed_stages = fixed_stages({.forward = std::vector<int>{2, 5}, .backward = std::vector<int>{3, 5}}, 8, 3);
  expect_refused(request, "forward of all layers");
}

}  // namespace
}  // namespace sluice
