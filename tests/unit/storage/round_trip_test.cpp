#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/storage/cluster_file.h"
#include "core/storage/plan_file.h"
#include "core/storage/profile_file.h"
#include "core/storage/weights_file.h"
#include "tests/unit/storage/samples.h"

namespace sluice {
namespace {

TEST(RoundTrip, returns_every_field_of_a_profile) {
  const ScratchFolder folder;
  write_profile(folder.file("p.h5"), sample_profile());
  EXPECT_EQ(read_profile(folder.file("p.h5")), sample_profile());
}

TEST(RoundTrip, returns_every_field_of_a_cluster) {
  const ScratchFolder folder;
  write_cluster(folder.file("c.h5"), sample_cluster());
  EXPECT_EQ(read_cluster(folder.file("c.h5")), sample_cluster());
}

TEST(RoundTrip, returns_every_field_of_a_plan) {
  const ScratchFolder folder;
  write_plan(folder.file("plan.h5"), sample_plan());
  EXPECT_EQ(read_plan(folder.file("plan.h5")), sample_plan());
}

TEST(RoundTrip, returns_weights_bit_for_bit) {
  const ScratchFolder folder;
  const Weights weights{
      {"conv1", {{"weight", {{2, 1, 3}, {1, -0.0F, 3e-40F, 1.0F / 3, 5, 6}}}, {"bias", {{2}, {7, 8}}}}}, {"empty", {}}};
  write_weights(folder.file("w.h5"), weights);
  Weights read = read_weights(folder.file("w.h5"));
  EXPECT_TRUE(std::signbit(read["conv1"]["weight"].values[1]));
  EXPECT_EQ(read, weights);
}

TEST(RoundTrip, returns_a_long_program) {
  const ScratchFolder folder;
  Plan plan = sample_plan();
  plan.microbatches = 300'000;
  for (int m = 0; m < plan.microbatches; ++m) plan.programs[0].ranks[1].push_back({Op::forward, 1, kNone, m});
  write_plan(folder.file("plan.h5"), plan);
  EXPECT_EQ(read_plan(folder.file("plan.h5")), plan);
}

TEST(RoundTrip, returns_provenance_and_schema) {
  const ScratchFolder folder;
  const Provenance provenance{"sluice-run probe -o c.h5", {{"threads", "2"}, {"host", ""}}};
  write_cluster(folder.file("c.h5"), sample_cluster(), provenance);
  EXPECT_EQ(read_provenance(folder.file("c.h5")), provenance);
  EXPECT_EQ(schema_of(folder.file("c.h5")), "sluice/cluster");
}

TEST(PlanFile, refuses_more_instructions_than_the_limit) {
  const ScratchFolder folder;
  try {
    write_plan(folder.file("plan.h5"), sample_plan(), {}, 6);
    FAIL() << "7 instructions were written";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::infeasible);
    EXPECT_NE(std::string(error.what()).find("7 instructions"), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace
}  // namespace sluice
