#include "core/partition_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/liveness.h"
#include "optimizer/schedule/build_plan.h"
#include "optimizer/solver/solver.h"
#include "random_profile.h"

namespace sluice {
namespace {

using testing::RandomCase;

bool holds(LayerId begin, LayerId end, LayerId layer) { return begin <= layer && layer < end; }
bool contains(const std::vector<TensorId>& list, TensorId tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

/// Traffic straight from the definition: for each tensor, who makes it and who reads it.
struct Bytes {
  double received = 0, sent = 0;
};
Bytes traffic_by_definition(const Profile& profile, const Share& s, int microbatches) {
  const Model& model = profile.model;
  const auto forward_here = [&](LayerId l) { return holds(s.forward_begin, s.forward_end, l); };
  const auto backward_here = [&](LayerId l) { return holds(s.backward_begin, s.backward_end, l); };
  Bytes bytes;
  for (TensorId t = 0; t < std::ssize(model.tensors); ++t) {
    const Tensor& tensor = model.tensors[static_cast<std::size_t>(t)];
    if (tensor.producer == kDataset) continue;
    bool read_here = false, read_elsewhere = false, summed_here = false, summed_elsewhere = false;
    for (LayerId l = 0; l < std::ssize(model.layers); ++l) {
      const LayerNeeds& needs = model.needs[static_cast<std::size_t>(l)];
      if (contains(needs.forward, t)) {
        (forward_here(l) ? read_here : read_elsewhere) = true;
        (backward_here(l) ? summed_here : summed_elsewhere) = true;
      }
      if (contains(needs.backward_input, t) || contains(needs.backward_weight, t))
        (backward_here(l) ? read_here : read_elsewhere) = true;
    }
    const auto size = static_cast<double>(tensor.bytes);
    if (forward_here(tensor.producer) ? read_elsewhere : false) bytes.sent += size;
    if (!forward_here(tensor.producer) && read_here) bytes.received += size;
    if (tensor.kind != TensorKind::output) continue;
    if (backward_here(tensor.producer) && summed_elsewhere) bytes.received += size;
    if (!backward_here(tensor.producer) && summed_here) bytes.sent += size;
  }
  for (LayerId l = 0; l < std::ssize(model.layers); ++l) {
    const double weights =
        static_cast<double>(profile.costs[static_cast<std::size_t>(l)].parameter_bytes) / microbatches;
    if (forward_here(l) && !backward_here(l)) bytes.received += weights;
    if (!forward_here(l) && backward_here(l)) bytes.sent += weights;
  }
  return bytes;
}

Share random_share(RandomCase& random, int layers) {
  Share share;
  share.forward_begin = random.between(0, layers);
  share.forward_end = random.between(share.forward_begin, layers);
  share.backward_begin = random.between(0, layers);
  share.backward_end = random.between(share.backward_begin, layers);
  return share;
}

TEST(PartitionCost, counts_traffic_as_defined) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomCase random(seed);
    const int layers = random.between(1, 8), microbatches = random.between(1, 5);
    const Profile profile = random.profile(layers, random.chance(0.3));
    const Cluster cluster = random.cluster(2, true);
    const PartitionCost cost(profile, cluster, "1f1b", microbatches, false);
    const Share share = random_share(random, layers);
    const ShareLoad load = cost.load(share, {});
    const Bytes expected = traffic_by_definition(profile, share, microbatches);
    EXPECT_NEAR(load.received_bytes, expected.received, 1e-9) << "seed " << seed;
    EXPECT_NEAR(load.sent_bytes, expected.sent, 1e-9) << "seed " << seed;
  }
}

TEST(PartitionCost, a_tally_that_wanders_agrees_with_one_built_at_once) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomCase random(seed);
    const int layers = random.between(1, 8);
    const Profile profile = random.profile(layers, false);
    const Cluster cluster = random.cluster(4, true);
    const PartitionCost cost(profile, cluster, "1f1b", 3, false);
    ShareTally tally(cost);
    for (int i = 0; i < 20; ++i) {
      const ShareSeat seat{0, random.between(0, 3), 4};
      const Share share = random_share(random, layers);
      tally.restart(seat, share.forward_begin, share.backward_begin);
      while (tally.share().backward_end < layers) tally.grow_backward();
      while (tally.share().forward_end < layers) tally.grow_forward();
      while (tally.share().backward_end > share.backward_end) tally.shrink_backward();
      while (tally.share().forward_end > share.forward_end) tally.shrink_forward();
      const ShareLoad wandered = tally.load(), direct = cost.load(share, seat);
      EXPECT_EQ(wandered.memory_bytes, direct.memory_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.received_bytes, direct.received_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.sent_bytes, direct.sent_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.compute_s, direct.compute_s) << "seed " << seed;
    }
  }
}

TEST(PartitionCost, the_update_counts_once_a_step_and_speed_divides_compute) {
  Profile profile = RandomCase(1).profile(1, true);
  profile.costs[0] = {.forward_s = 1, .backward_input_s = 2, .backward_weight_s = 3, .update_s = 8};
  Cluster cluster = uniform_cluster(1, 1, {}, {});
  cluster.ranks[0].speed = 2;
  const PartitionCost cost(profile, cluster, "gpipe", 4, false);
  const ShareLoad load = cost.load({0, 1, 0, 1}, {});
  EXPECT_DOUBLE_EQ(load.compute_s, 1 + 2 + 3 + 8.0 / 4);
  EXPECT_DOUBLE_EQ(cost.bottleneck_s(load, 0), 4);
}

TEST(PartitionCost, stashes_follow_the_schedule) {
  EXPECT_EQ(share_in_flight("gpipe", 8, 4, 3), 8);
  EXPECT_EQ(share_in_flight("1f1b", 8, 4, 0), 4);
  EXPECT_EQ(share_in_flight("1f1b", 8, 4, 3), 1);
  EXPECT_EQ(share_in_flight("1f1b", 2, 4, 0), 2);
  EXPECT_EQ(share_in_flight("sequential", 8, 1, 0), 1);
}

std::vector<int> random_bounds(RandomCase& random, int workers, int layers) {
  std::vector<int> bounds{0, layers};
  while (std::ssize(bounds) < workers + 1) bounds.push_back(random.between(0, layers));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

TEST(PartitionCost, memory_covers_what_the_built_plan_holds) {
  double priced = 0, held = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomCase random(seed);
    const int layers = random.between(1, 12), workers = random.between(1, 7), microbatches = random.between(1, 10);
    const Profile profile = random.profile(layers, random.chance(0.3));
    const Cluster cluster = random.cluster(workers, true);
    Partition partition{random_bounds(random, workers, layers), random_bounds(random, workers, layers)};
    if (random.chance(0.3)) partition.backward_bounds = partition.forward_bounds;
    const std::string schedule = random.chance(0.7) ? "1f1b" : "gpipe";
    const Plan plan = build_plan({profile, cluster, schedule, microbatches, stages_of(partition)});
    const PartitionCost cost(profile, cluster, schedule, microbatches, false);
    ShareSeat seat{0, 0, used_workers(partition)};
    for (; seat.rank < workers; ++seat.rank) {
      const Share share = share_of(partition, seat.rank);
      if (share.empty()) continue;
      const std::int64_t priced_here = cost.load(share, seat).memory_bytes;
      const std::int64_t held_here = memory_use(plan, seat.rank).total();
      EXPECT_GE(priced_here, held_here) << "rank " << seat.rank << " of " << schedule << ", M = " << microbatches;
      priced += static_cast<double>(priced_here);
      held += static_cast<double>(held_here);
      ++seat.position;
    }
  }
  EXPECT_LT(priced, 1.5 * held) << "safe, but not far above";
}

TEST(PartitionCost, what_does_not_fit_costs_infinity) {
  const Profile profile = RandomCase(3).profile(4, true);
  Cluster cluster = uniform_cluster(1, 1, {}, {});
  const std::int64_t needed = PartitionCost(profile, cluster, "1f1b", 2, false).load({0, 4, 0, 4}, {}).memory_bytes;
  for (const std::int64_t missing : {0, 1}) {
    cluster.ranks[0].memory_bytes = needed - missing;
    const PartitionCost cost(profile, cluster, "1f1b", 2, false);
    EXPECT_EQ(std::isinf(cost.bottleneck_s(cost.load({0, 4, 0, 4}, {}), 0)), missing > 0);
  }
}

TEST(PartitionCost, prices_by_the_link_that_the_workers_share) {
  const LinkClass fast{0, 100}, slow{0, 10};
  EXPECT_EQ(pricing_link(uniform_cluster(1, 4, fast, slow)), fast);
  EXPECT_EQ(pricing_link(uniform_cluster(4, 1, fast, slow)), slow);
  EXPECT_EQ(pricing_link(uniform_cluster(2, 2, fast, slow)), slow);
  EXPECT_EQ(pricing_link(uniform_cluster(2, 2, slow, fast)), slow);
}

}  // namespace
}  // namespace sluice
