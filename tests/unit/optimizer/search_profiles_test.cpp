#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "optimizer/import/pipedream.h"
#include "optimizer/solver/search.h"

namespace sluice {
namespace {

const std::string kFolder = "tests/data/pipedream/";

/// Of one rank a worker, links free.
Solution best(const Profile& profile, int ranks, const SearchSpace& space) {
  const Cluster cluster = uniform_cluster(1, ranks, {}, {});
  return search({profile, cluster, {"1f1b", 8, true}, space}, kNoDeadline);
}

TEST(SearchProfiles, compute_only_optima_over_intervals_are_the_known_ones) {
  std::ifstream known(kFolder + "joint_and_independent_cuts_compute.txt");
  int cases = 0;
  for (std::string line; std::getline(known, line); ++cases) {
    char name[64];
    int nodes = 0, ranks = 0;
    double joint = 0, independent = 0;
    ASSERT_EQ(
        std::sscanf(line.c_str(), "%63s n=%d K=%d C: co=%lf free=%lf", name, &nodes, &ranks, &joint, &independent), 5);
    const Profile profile = import_pipedream(kFolder + name + ".graph.txt").profile;
    for (const auto& [cuts, expected_ms] : {std::pair{Cuts::joint, joint}, std::pair{Cuts::independent, independent}}) {
      const Solution found = best(profile, ranks, {.cuts = cuts});
      EXPECT_NEAR(found.price * 1e3, expected_ms, 5.1e-4) << line;
      EXPECT_TRUE(is_optimal(found)) << line;
    }
  }
  EXPECT_EQ(cases, 24);
}

TEST(SearchProfiles, compute_only_optima_over_ideals_are_those_of_pipedreams_optimizer) {
  struct Known {
    const char* name;
    int ranks;
    double bottleneck_ms;
  };
  for (const auto& [name, ranks, bottleneck_ms] :
       {Known{"resnet18", 8, 35.207}, Known{"resnet18", 16, 32.330}, Known{"resnet50", 8, 56.684},
        Known{"squeezenet1_0", 4, 72.954}, Known{"resnet101", 16, 26.149}}) {
    const Profile profile = import_pipedream(kFolder + name + ".graph.txt").profile;
    const Solution found = best(profile, ranks, {.cuts = Cuts::joint, .ideals = true});
    EXPECT_NEAR(found.price * 1e3, bottleneck_ms, 5.1e-4) << name << " on " << ranks << " ranks";
    EXPECT_TRUE(is_optimal(found)) << name;
  }
}

}  // namespace
}  // namespace sluice
