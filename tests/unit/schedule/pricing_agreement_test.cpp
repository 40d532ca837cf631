#include <gtest/gtest.h>

#include <algorithm>

#include "core/cost_model.h"
#include "core/index.h"
#include "core/simulator.h"
#include "core/stage_pricing.h"
#include "tests/unit/schedule/examples.h"

/// What solvers are told that stages cost, held against the plans built from them.
namespace sluice {
namespace {

Loads loads_of(const Plan& plan) {
  return loads_of(plan.profile, plan.cluster, plan.stages,
                  {.schedule = plan.schedule, .microbatches = plan.microbatches});
}

TEST(PricingAgreement, each_rank_computes_as_long_as_priced) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Plan plan = seed % 4 == 0 ? examples::random_cooperative_plan(seed) : examples::random_plan(seed);
    const Loads loads = loads_of(plan);
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
      double seconds = 0;
      for (const Instruction& instruction : program(plan, "step").ranks[at(rank)])
        seconds += instruction_time(plan, instruction, rank);
      EXPECT_NEAR(seconds / plan.microbatches, loads.ranks[at(rank)].compute_s, 1e-15)
          << "seed " << seed << ", rank " << rank;
    }
  }
}

/// Partial gradients that several stages send are priced once, flat multicasts as if they were hierarchical.
TEST(PricingAgreement, no_nic_carries_less_than_priced) {
  int exact = 0, nics = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Plan plan = seed % 4 == 0 ? examples::random_cooperative_plan(seed) : examples::random_plan(seed);
    const Loads loads = loads_of(plan);
    const Timeline timeline = simulate(plan);
    std::vector<std::int64_t> sent(loads.nodes.size()), received(loads.nodes.size());
    for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
      const int node = plan.cluster.ranks[at(rank)].node;
      sent[at(node)] += timeline.ranks[at(rank)].sent_bytes[static_cast<std::size_t>(LinkKind::inter_node)];
      received[at(node)] += timeline.ranks[at(rank)].received_bytes[static_cast<std::size_t>(LinkKind::inter_node)];
    }
    // A ring's chunks are whole floats: two may be one larger than the mean.
    const auto rings = std::count_if(plan.transfers.begin(), plan.transfers.end(), [](const Transfer& transfer) {
      return transfer.payload == Payload::weight_gradients;
    });
    for (std::size_t node = 0; node < loads.nodes.size(); ++node)
      for (const auto& [carried, mean] : {std::pair(sent[node], loads.nodes[node].sent_bytes),
                                          std::pair(received[node], loads.nodes[node].received_bytes)}) {
        const double priced = mean * plan.microbatches, slack = 2 * sizeof(float) * static_cast<double>(rings) + 1e-6;
        EXPECT_GE(static_cast<double>(carried), priced - slack) << "seed " << seed << ", node " << node;
        exact += std::abs(static_cast<double>(carried) - priced) <= slack ? 1 : 0;
        ++nics;
      }
  }
  EXPECT_GT(exact, nics * 9 / 10) << "of " << nics;
}

}  // namespace
}  // namespace sluice
