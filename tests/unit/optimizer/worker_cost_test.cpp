#include "core/worker_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/liveness.h"
#include "optimizer/schedule/build_plan.h"
#include "random_workers.h"

namespace sluice {
namespace {

using namespace testing;

/// Ranks on one node, or each on its own; the other class of links is never used.
Cluster one_link_class(RandomCase& random, int ranks) {
  const LinkClass link{0, random.chance(0.2) ? 1e6 : random.between(5, 100)}, unused{0, 0.5};
  return random.chance(0.5) ? uniform_cluster(1, ranks, link, unused) : uniform_cluster(ranks, 1, unused, link);
}

WorkerLoad load_of(const WorkerCost& cost, const std::vector<LayerWork>& works) {
  WorkerTally tally(cost);
  for (const LayerWork& work : works) tally.add(work);
  return tally.load();
}

double largest_price(const WorkerCost& cost, const std::vector<RandomWorker>& workers) {
  const std::vector<Seat> seats = seats_of(workers);
  double largest = 0;
  for (std::size_t k = 0; k < workers.size(); ++k)
    largest = std::max(largest, cost.price(load_of(cost, workers[k].works), seats[k], cost.cluster().ranks[0]));
  return largest;
}

/// Of a rank that shares its NIC with no other.
double link_s_of(const Cluster& cluster, const Loads& loads, Rank rank, const Pricing& pricing) {
  Loads alone;
  alone.ranks.resize(cluster.ranks.size());
  alone.nodes.resize(cluster.node_names.size());
  alone.ranks[at(rank)] = loads.ranks[at(rank)];
  alone.ranks[at(rank)].compute_s = 0;
  alone.ranks[at(rank)].memory_bytes = 0;
  alone.nodes[at(cluster.ranks[at(rank)].node)] = loads.nodes[at(cluster.ranks[at(rank)].node)];
  return bottleneck(cluster, alone, pricing).seconds;
}

TEST(WorkerCost, the_largest_price_is_the_stages_bottleneck_on_links_of_one_class) {
  for (unsigned seed = 0; seed < 6000; ++seed) {
    RandomCase random(seed);
    const Profile profile = random.profile(random.between(1, 9), random.chance(0.3));
    const auto cuts = static_cast<RandomCuts>(random.between(0, 2));
    const bool recompute = cuts == RandomCuts::joint && random.chance(0.5);
    const auto workers = random_workers(random, profile.model, cuts, 4, random.chance(0.5) ? 3 : 1, recompute);
    Cluster cluster = one_link_class(random, rank_count(workers));
    const Pricing pricing{random.chance(0.5) ? "1f1b" : "gpipe", random.between(1, 9), random.chance(0.1)};
    if (random.chance(0.5))
      for (RankSpec& rank : cluster.ranks) rank.memory_bytes = 500 + 100 * static_cast<std::int64_t>(seed % 10);
    const WorkerCost cost(profile, cluster, pricing);
    const Loads loads = loads_of(profile, cluster, stages_of_random(workers), pricing);
    const double priced = largest_price(cost, workers), defined = bottleneck(cluster, loads, pricing).seconds;
    if (std::isinf(defined))
      EXPECT_TRUE(std::isinf(priced)) << "seed " << seed;
    else
      EXPECT_NEAR(priced, defined, 1e-12 * defined) << "seed " << seed;
    for (std::size_t k = 0; k < workers.size(); ++k) {
      const WorkerLoad load = load_of(cost, workers[k].works);
      const Seat seat = seats_of(workers)[k];
      const Rank first = workers[k].ranks.front();  // the busiest replica
      EXPECT_EQ(cost.memory_bytes(load, seat), loads.ranks[at(first)].memory_bytes) << "seed " << seed;
      EXPECT_NEAR(cost.link_s(load, seat), link_s_of(cluster, loads, first, pricing), 1e-9) << "seed " << seed;
    }
  }
}

TEST(WorkerCost, a_worker_knows_what_it_receives_and_bounds_what_it_sends_where_others_recompute) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomCase random(seed);
    const Profile profile = random.profile(random.between(1, 9), random.chance(0.3));
    const auto cuts = random.chance(0.5) ? RandomCuts::independent : RandomCuts::three;
    const auto workers = random_workers(random, profile.model, cuts, 4, 1, true);
    const Cluster cluster = uniform_cluster(1, rank_count(workers), {}, {});
    const Pricing pricing{"1f1b", random.between(1, 9)};
    const WorkerCost cost(profile, cluster, pricing);
    const Loads loads = loads_of(profile, cluster, stages_of_random(workers), pricing);
    for (std::size_t k = 0; k < workers.size(); ++k) {
      const WorkerLoad load = load_of(cost, workers[k].works);
      const double steps = 1.0 / pricing.microbatches;
      EXPECT_NEAR(load.received_bytes + load.weights_received_bytes * steps, loads.ranks[k].received_bytes, 1e-9)
          << "seed " << seed;
      EXPECT_LE(load.least_sent_bytes + load.weights_sent_bytes * steps, loads.ranks[k].sent_bytes + 1e-9)
          << "seed " << seed;
      EXPECT_NEAR(cost.compute_s(load, {}, 1), loads.ranks[k].compute_s, 1e-12 * loads.ranks[k].compute_s)
          << "seed " << seed;
    }
  }
}

TEST(WorkerCost, prices_on_mixed_links_are_lower_bounds) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomCase random(seed);
    Profile profile = random.profile(random.between(1, 9), random.chance(0.3));
    const auto cuts = static_cast<RandomCuts>(random.between(0, 2));
    const auto workers = random_workers(random, profile.model, cuts, 4, 3, false);
    for (LayerCost& layer : profile.costs) layer.forward_s = layer.backward_input_s = layer.backward_weight_s = 0;
    const LinkClass intra{0, static_cast<double>(random.between(5, 100))};
    const LinkClass inter{0, static_cast<double>(random.between(5, 100))};
    Cluster cluster = uniform_cluster(3, rank_count(workers), intra, inter);
    cluster.ranks.resize(at(rank_count(workers)));
    for (RankSpec& rank : cluster.ranks) rank.node = random.between(0, 2);
    const Pricing pricing{"1f1b", random.between(1, 9)};
    const double defined =
        bottleneck(cluster, loads_of(profile, cluster, stages_of_random(workers), pricing), pricing).seconds;
    EXPECT_LE(largest_price(WorkerCost(profile, cluster, pricing), workers), defined * (1 + 1e-12)) << "seed " << seed;
  }
}

TEST(WorkerCost, on_mixed_links_no_replica_need_send_all_weights) {
  // Ranks 0 and 2, of two nodes, update both layers; each sends one of them to the other rank of its node.
  Profile profile = RandomCase(1).profile(2, true);
  for (Tensor& tensor : profile.model.tensors) tensor.bytes = 0;
  for (LayerCost& layer : profile.costs) layer = {.parameter_bytes = 1};
  const Cluster cluster = uniform_cluster(2, 2, {0, 1}, {0, 2});
  const Pricing pricing{"1f1b", 2};
  const std::vector<Stage> stages{
      {Work::forward, 0, {0}, {1}}, {Work::forward, 1, {1}, {3}}, {Work::backward, 2, {0, 1}, {0, 2}}};
  const WorkerCost cost(profile, cluster, pricing);
  const double priced = cost.link_s(load_of(cost, {{0, Work::backward}, {1, Work::backward}}), {2, 2, 4});
  EXPECT_LE(priced, bottleneck(cluster, loads_of(profile, cluster, stages, pricing), pricing).seconds);
}

TEST(WorkerCost, a_tally_that_wanders_agrees_exactly_with_one_built_at_once) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomCase random(seed);
    Profile profile = random.profile(random.between(1, 8), false);
    for (LayerCost& layer : profile.costs) layer.forward_s /= 3;
    const Cluster cluster = random.cluster(4, true);
    const WorkerCost cost(profile, cluster, {"1f1b", 3});
    WorkerTally wandering(cost);
    std::vector<LayerWork> present;
    for (int i = 0; i < 60; ++i) {
      const LayerWork work{random.between(0, static_cast<int>(profile.model.layers.size()) - 1),
                           static_cast<Work>(random.between(0, 4))};
      const auto same = [&](const LayerWork& other) {
        const auto is_backward = [](Work w) { return w != Work::forward && w != Work::recompute; };
        return other.layer == work.layer &&
               (other.work == work.work || (is_backward(other.work) && is_backward(work.work) &&
                                            (other.work == Work::backward || work.work == Work::backward)));
      };
      const auto known = std::find_if(present.begin(), present.end(), same);
      if (known == present.end()) {
        wandering.add(work);
        present.push_back(work);
      } else {
        wandering.remove(*known);
        present.erase(known);
      }
      const WorkerLoad wandered = wandering.load(), direct = load_of(cost, present);
      EXPECT_EQ(wandered.holdings, direct.holdings) << "seed " << seed;
      EXPECT_EQ(wandered.received_bytes, direct.received_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.sent_bytes, direct.sent_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.weights_received_bytes, direct.weights_received_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.weights_sent_bytes, direct.weights_sent_bytes) << "seed " << seed;
      EXPECT_EQ(wandered.compute_s, direct.compute_s) << "seed " << seed;
      EXPECT_EQ(wandered.update_s, direct.update_s) << "seed " << seed;
      EXPECT_EQ(wandering.empty(), present.empty()) << "seed " << seed;
    }
  }
}

/// Deals the backwards (each with its recompute) to the workers in another order.
void shuffle_backward_owners(RandomCase& random, std::vector<Stage>& stages) {
  std::vector<std::vector<Rank>> owners;
  for (const Stage& stage : stages)
    if (stage.work == Work::backward) owners.push_back(stage.owners);
  for (std::size_t i = owners.size(); i > 1; --i)
    std::swap(owners[i - 1], owners[at(random.between(0, static_cast<int>(i) - 1))]);
  std::map<int, std::vector<Rank>> by_index;
  for (Stage& stage : stages)
    if (stage.work == Work::backward) {
      by_index[stage.index] = stage.owners = owners.back();
      owners.pop_back();
    }
  for (Stage& stage : stages)
    if (stage.work == Work::recompute) stage.owners = by_index.at(stage.index);
}

/// A second input, which some layers read.
void add_input(RandomCase& random, Profile& profile) {
  for (LayerNeeds& needs : profile.model.needs)
    if (random.chance(0.3)) {
      needs.forward.push_back(static_cast<TensorId>(profile.model.tensors.size()));
      if (random.chance(0.5)) needs.backward_weight.push_back(needs.forward.back());
    }
  profile.model.tensors.push_back({.name = "input2", .kind = TensorKind::input, .bytes = random.between(0, 50)});
}

/// Plans of random workers under one of the schedules, each as likely.
void expect_memory_covered(const std::vector<std::string>& schedules) {
  double priced = 0, held = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomCase random(seed);
    Profile profile = random.profile(random.between(1, 12), random.chance(0.3));
    if (random.chance(0.3)) add_input(random, profile);
    const auto cuts = static_cast<RandomCuts>(random.between(0, 2));
    const bool recompute = random.chance(0.4);
    const auto workers = random_workers(random, profile.model, cuts, 6, random.chance(0.5) ? 3 : 1, recompute);
    const Cluster cluster = random.cluster(rank_count(workers), true);
    const Pricing pricing{schedules[at(random.between(0, static_cast<int>(schedules.size()) - 1))],
                          random.between(1, 12)};
    std::vector<Stage> stages = stages_of_random(workers);
    if (cuts == RandomCuts::independent && random.chance(0.3)) shuffle_backward_owners(random, stages);
    const Plan plan = build_plan({profile, cluster, pricing.schedule, pricing.microbatches, stages});
    const Loads loads = loads_of(profile, cluster, stages, pricing);
    for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank) {
      const std::int64_t priced_here = loads.ranks[at(rank)].memory_bytes, held_here = memory_use(plan, rank).total();
      EXPECT_GE(priced_here, held_here) << "rank " << rank << " of " << pricing.schedule
                                        << ", M = " << pricing.microbatches;
      priced += static_cast<double>(priced_here);
      held += static_cast<double>(held_here);
    }
  }
  ::testing::Test::RecordProperty("priced_over_held", std::to_string(priced / held));
  EXPECT_LT(priced, 1.25 * held) << "safe, but not far above";
}

TEST(WorkerCost, memory_covers_what_the_built_plan_holds) { expect_memory_covered({"1f1b", "1f1b", "gpipe"}); }

TEST(WorkerCost, memory_covers_delayed_backward_weights) { expect_memory_covered({"zb-h1"}); }

TEST(WorkerCost, memory_covers_a_rank_with_backward_weights_alone) {
  // No backward waits for rank 2, so the schedule must keep the forwards from running away from it.
  const std::vector<Stage> stages{{Work::forward, 0, {0, 1}, {0}},
                                  {Work::backward_input, 0, {0, 1, 2}, {0}},
                                  {Work::forward, 1, {2}, {1}},
                                  {Work::backward_weight, 1, {0}, {1}},
                                  {Work::backward_weight, 2, {1, 2}, {2}}};
  const Cluster cluster = uniform_cluster(3, 1, {}, {});
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Profile profile = RandomCase(seed).profile(3, true);
    const Pricing pricing{"1f1b", 9};
    const Plan plan = build_plan({profile, cluster, pricing.schedule, pricing.microbatches, stages});
    EXPECT_GE(loads_of(profile, cluster, stages, pricing).ranks[2].memory_bytes, memory_use(plan, 2).total())
        << "seed " << seed;
  }
}

TEST(WorkerCost, the_update_counts_once_a_step_and_speed_divides_compute) {
  Profile profile = RandomCase(1).profile(1, true);
  profile.costs[0] = {.forward_s = 1, .backward_input_s = 2, .backward_weight_s = 3, .update_s = 8};
  const Cluster cluster = uniform_cluster(1, 2, {}, {});
  const WorkerCost cost(profile, cluster, {"gpipe", 4});
  const WorkerLoad load = load_of(cost, {{0, Work::forward}, {0, Work::backward}});
  EXPECT_DOUBLE_EQ(cost.price(load, {1, 1, 1}, {.speed = 2}), (1 + 2 + 3 + 8.0 / 4) / 2);
  EXPECT_DOUBLE_EQ(cost.price(load, {2, 2, 2}, {.speed = 1}), (1 + 2 + 3) / 2.0 + 8.0 / 4);
  EXPECT_DOUBLE_EQ(cost.price(load, {3, 3, 3}, {.speed = 1}), (1 + 2 + 3) * 2 / 4.0 + 8.0 / 4)
      << "2 of 4 micro-batches";
}

TEST(WorkerCost, what_does_not_fit_costs_infinity) {
  const Profile profile = RandomCase(3).profile(4, true);
  const Cluster cluster = uniform_cluster(1, 1, {}, {});
  const WorkerCost cost(profile, cluster, {"1f1b", 2});
  std::vector<LayerWork> works;
  for (LayerId l = 0; l < 4; ++l) works.insert(works.end(), {{l, Work::forward}, {l, Work::backward}});
  const WorkerLoad load = load_of(cost, works);
  const std::int64_t needed = cost.memory_bytes(load, {});
  EXPECT_TRUE(std::isfinite(cost.price(load, {}, {.memory_bytes = needed})));
  EXPECT_TRUE(std::isinf(cost.price(load, {}, {.memory_bytes = needed - 1})));
}

}  // namespace
}  // namespace sluice
