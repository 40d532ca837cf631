#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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
                  {.schedule = plan.schedule, .microbatches = plan.microbatches, .data_reader = plan.data_reader});
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

/// Partial gradients that several stages send are priced once, multicasts as if what leaves a node did so once (true of
/// chains alone) and all-reduces as rings. What enters a node does so once by every algorithm aware of nodes.
TEST(PricingAgreement, no_nic_carries_less_than_priced) {
  std::map<Algorithm, int> exact, nics;  // of algorithms aware of nodes, by what enters
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Plan plan = seed % 4 == 0 ? examples::random_cooperative_plan(seed) : examples::random_plan(seed);
    for (Transfer& transfer : plan.transfers)
      if (transfer.payload == Payload::weight_gradients) transfer.route.algorithm = Algorithm::ring;
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
    const double slack = 2 * sizeof(float) * static_cast<double>(rings) + 1e-6;
    for (std::size_t node = 0; node < loads.nodes.size(); ++node) {
      EXPECT_GE(static_cast<double>(sent[node]), loads.nodes[node].sent_bytes * plan.microbatches - slack)
          << "seed " << seed << ", node " << node;
      const double above = static_cast<double>(received[node]) - loads.nodes[node].received_bytes * plan.microbatches;
      EXPECT_GE(above, -slack) << "seed " << seed << ", node " << node;
      if (!aware_of_nodes(*plan.multicast)) continue;
      ++nics[*plan.multicast];
      exact[*plan.multicast] += above <= slack ? 1 : 0;
    }
  }
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast))
    if (aware_of_nodes(algorithm)) {
      EXPECT_GT(exact[algorithm], nics[algorithm] * 95 / 100) << "of " << nics[algorithm];
      EXPECT_GT(nics[algorithm], 100) << to_string(algorithm);
    }
}

}  // namespace
}  // namespace sluice
