#pragma once

#include <algorithm>
#include <cstdint>

#include "core/index.h"
#include "optimizer/solver/problem.h"
#include "random_profile.h"

namespace sluice::testing {

/// A problem that owns what it refers to.
struct OwnedProblem {
  Profile profile;
  Cluster cluster;
  Pricing pricing;
  SearchSpace space;
  [[nodiscard]] Problem problem() const { return {profile, cluster, pricing, space}; }
};

/// Small random problems of every kind, infeasible ones among them; the same seed gives the same one.
/// Solvers that do not know some feature switch it off in `space` (or level the cluster).
class RandomProblem {
 public:
  explicit RandomProblem(unsigned seed) : random_(seed) {}

  OwnedProblem of(int layers, int ranks) {
    OwnedProblem owned{profile_of(layers), cluster_of(ranks), {}, space_of(ranks)};
    owned.pricing.schedule = random_.chance(0.6) ? "1f1b" : "gpipe";
    owned.pricing.microbatches = random_.between(1, 6);
    if (owned.pricing.schedule == "gpipe" && owned.profile.split_backward && owned.pricing.microbatches % 2 == 0)
      owned.pricing.schedule = "zb-h1";
    owned.pricing.compute_only = random_.chance(0.1);
    if (owned.space.cuts == Cuts::three && !owned.profile.split_backward) owned.space.cuts = Cuts::independent;
    if (random_.chance(0.5)) limit_memory(owned);
    return owned;
  }

  int between(int least, int most) { return random_.between(least, most); }
  bool chance(double probability) { return random_.chance(probability); }

 private:
  Profile profile_of(int layers) {
    Profile profile = random_.profile(layers, static_cast<RandomCase::Graph>(random_.between(0, 2)));
    if (random_.chance(0.5)) join_backward(profile);
    if (random_.chance(0.3)) quicken(profile, random_.chance(0.3) ? 0 : 0.25);  // traffic decides
    if (random_.chance(0.1))                                                    // many plans of the same price
      for (LayerCost& cost : profile.costs)
        cost = {.forward_s = 1, .backward_input_s = profile.split_backward ? 1.0 : 2.0, .parameter_bytes = 10};
    if (random_.chance(0.3))  // stashes fill the memory
      for (Tensor& tensor : profile.model.tensors) tensor.bytes *= 5;
    if (random_.chance(0.15))  // weights make replicas and displaced layers dear
      for (LayerCost& cost : profile.costs) cost.parameter_bytes *= 10;
    return profile;
  }

  static void quicken(Profile& profile, double factor) {
    for (LayerCost& cost : profile.costs)
      for (double* seconds : {&cost.forward_s, &cost.backward_input_s, &cost.backward_weight_s, &cost.update_s})
        *seconds *= factor;
  }

  static void join_backward(Profile& profile) {
    profile.split_backward = false;
    for (LayerCost& cost : profile.costs) {
      cost.backward_input_s += cost.backward_weight_s;
      cost.backward_weight_s = 0;
    }
  }

  /// One node, one rank a node, two or three ranks a node and a rest; fast inside and slow between.
  Cluster cluster_of(int ranks) {
    const double inter = random_.chance(0.2) ? 1e3 : random_.between(2, 60);
    const int per_node[] = {ranks, 1, 2, 3};
    Cluster cluster = uniform_cluster(1, ranks, {0, inter * random_.between(1, 4)}, {0, inter});
    const int width = per_node[random_.between(0, 3)];
    cluster.node_names.clear();
    for (Rank rank = 0; rank < ranks; ++rank) {
      cluster.ranks[at(rank)].node = rank / width;
      if (rank % width == 0) cluster.node_names.push_back(text("node", rank / width));
    }
    if (random_.chance(0.25))
      for (RankSpec& rank : cluster.ranks) rank.speed = random_.between(1, 4) * 0.5;
    return cluster;
  }

  SearchSpace space_of(int ranks) {
    SearchSpace space;
    space.cuts = static_cast<Cuts>(random_.between(0, 2));
    space.most_replicas = random_.chance(0.4) ? 1 : random_.between(1, ranks);
    space.recompute = random_.chance(0.4);
    space.ideals = random_.chance(0.4);
    space.free_backward = random_.chance(0.25);
    space.exactly = random_.chance(0.25);
    return space;
  }

  /// Limits around what a pipeline of equal workers holds, of every rank or of each its own.
  void limit_memory(OwnedProblem& owned) {
    double held = 0;
    for (const Tensor& tensor : owned.profile.model.tensors)
      held += static_cast<double>(tensor.bytes) * std::min(owned.pricing.microbatches, 3);
    for (const LayerCost& cost : owned.profile.costs)
      held += static_cast<double>(3 * cost.parameter_bytes + cost.packed_bytes) + 10;
    const bool equal = random_.chance(0.7);
    double share = random_.between(3, 12) / 10.0;
    for (RankSpec& rank : owned.cluster.ranks) {
      if (!equal) share = random_.between(2, 15) / 10.0;
      rank.memory_bytes = std::max<std::int64_t>(1, static_cast<std::int64_t>(share * held));
    }
  }

  RandomCase random_;
};

}  // namespace sluice::testing
