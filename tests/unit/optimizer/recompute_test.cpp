#include "optimizer/solver/recompute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optimizer/import/pipedream.h"
#include "random_workers.h"

namespace sluice {
namespace {

using namespace testing;

struct RandomPick {
  Profile profile;
  Cluster cluster;
  Pricing pricing;
  std::vector<LayerWork> works;
  Seat seat;
  RankSpec rank;
};

RandomPick random_pick(unsigned seed) {
  RandomCase random(seed);
  RandomPick pick;
  pick.profile = random.profile(random.between(1, 9), random.chance(0.5));
  pick.cluster = uniform_cluster(1, 2, {0, static_cast<double>(random.between(1, 30))}, {});
  const char* schedules[] = {"1f1b", "1f1b", "1f1b", "gpipe", "zb-h1"};
  pick.pricing = {schedules[random.between(0, 4)], random.between(1, 9)};
  const auto cuts = static_cast<RandomCuts>(random.between(0, 2));
  const auto workers = random_workers(random, pick.profile.model, cuts, 3, 2, false);
  const int k = random.between(0, static_cast<int>(workers.size()) - 1);
  pick.works = workers[at(k)].works;
  pick.seat = seats_of(workers)[at(k)];
  pick.rank.speed = random.between(1, 2);
  if (random.chance(0.8)) pick.rank.memory_bytes = random.between(50, 1500);
  return pick;
}

WorkerTally tally_of(const WorkerCost& cost, const std::vector<LayerWork>& works) {
  WorkerTally tally(cost);
  for (const LayerWork& work : works) tally.add(work);
  return tally;
}

double price_with(const RandomPick& pick, const WorkerCost& cost, const std::vector<LayerId>& layers) {
  WorkerTally tally = tally_of(cost, pick.works);
  for (const LayerId layer : layers) tally.add({layer, Work::recompute});
  return cost.price(tally.load(), pick.seat, pick.rank);
}

/// Tries every set of layers whose backward is here.
double least_price(const RandomPick& pick, const WorkerCost& cost) {
  std::vector<LayerId> choices;
  for (const LayerWork& work : pick.works)
    if (work.work == Work::backward || work.work == Work::backward_input) choices.push_back(work.layer);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 0; set < 1u << choices.size(); ++set) {
    std::vector<LayerId> layers;
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (set >> i & 1) layers.push_back(choices[i]);
    least = std::min(least, price_with(pick, cost, layers));
  }
  return least;
}

TEST(Recompute, matches_a_search_of_all_sets) {
  int helped = 0, rescued = 0, hopeless = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const RandomPick pick = random_pick(seed);
    const WorkerCost cost(pick.profile, pick.cluster, pick.pricing);
    WorkerTally tally = tally_of(cost, pick.works);
    const WorkerLoad load = tally.load();
    const Recomputation found = best_recomputation(tally, cost, pick.seat, pick.rank);
    const double least = least_price(pick, cost), without = cost.price(load, pick.seat, pick.rank);
    EXPECT_TRUE(found.proven()) << "seed " << seed;
    EXPECT_EQ(found.price, least) << "seed " << seed;
    if (std::isfinite(found.price)) {
      EXPECT_EQ(price_with(pick, cost, found.layers), found.price) << "seed " << seed;
    }
    EXPECT_LE(recomputation_floor(cost, load, pick.seat, pick.rank), least) << "seed " << seed;
    EXPECT_EQ(tally.load().holdings, load.holdings) << "as before; seed " << seed;
    hopeless += std::isinf(least);
    rescued += std::isinf(without) && std::isfinite(least);
    helped += std::isfinite(without) && least < without;
  }
  EXPECT_GT(helped, 30) << "saves traffic";
  EXPECT_GT(rescued, 60) << "saves memory";
  EXPECT_GT(hopeless, 300);
}

TEST(Recompute, bounds_what_it_has_no_steps_to_look_at) {
  int unproven = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const RandomPick pick = random_pick(seed);
    const WorkerCost cost(pick.profile, pick.cluster, pick.pricing);
    WorkerTally tally = tally_of(cost, pick.works);
    const Recomputation found = best_recomputation(tally, cost, pick.seat, pick.rank, 2);
    const double least = least_price(pick, cost);
    EXPECT_LE(found.lower_bound, least) << "seed " << seed;
    EXPECT_GE(found.price, least) << "seed " << seed;
    unproven += !found.proven();
  }
  EXPECT_GT(unproven, 10);
}

TEST(Recompute, a_large_worker_fits_at_a_price_between_its_bounds) {
  const Profile profile = import_pipedream(std::string("tests/data/pipedream/resnet101.graph.txt")).profile;
  const Cluster cluster = uniform_cluster(1, 8, {0, 1e10}, {});
  const WorkerCost cost(profile, cluster, {"1f1b", 16});
  const Seat seat{1, 8, 8};
  WorkerTally tally(cost);
  for (LayerId layer = 0; layer < 100; ++layer) {
    tally.add({layer, Work::forward});
    tally.add({layer, Work::backward});
  }
  const WorkerLoad load = tally.load();
  const std::int64_t needed = cost.memory_bytes(load, seat);
  double before = 0;
  for (const double share : {1.0, 0.9, 0.7, 0.5, 0.3}) {
    const RankSpec rank{.memory_bytes = static_cast<std::int64_t>(share * static_cast<double>(needed))};
    const Recomputation found = best_recomputation(tally, cost, seat, rank);
    ASSERT_TRUE(std::isfinite(found.price)) << share;
    EXPECT_GE(found.price, before) << "less memory never helps";
    EXPECT_LE(found.lower_bound, found.price);
    EXPECT_LT(found.price, 1.01 * found.lower_bound);
    EXPECT_GE(found.lower_bound, recomputation_floor(cost, load, seat, rank));
    before = found.price;
    for (const LayerId layer : found.layers) tally.add({layer, Work::recompute});
    EXPECT_EQ(cost.price(tally.load(), seat, rank), found.price);
    for (const LayerId layer : found.layers) tally.remove({layer, Work::recompute});
  }
}

}  // namespace
}  // namespace sluice
