#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/cluster.h"
#include "runtime/comm/communicator.h"

namespace sluice {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// The communicator's ranks on their real nodes; links are of no interest.
inline Cluster cluster_of(const Communicator& communicator) {
  Cluster cluster;
  cluster.node_names = communicator.node_names();
  for (const int node : communicator.node_of_rank()) cluster.ranks.push_back({.node = node});
  return cluster;
}

/// Some ranks, ascending, at least one; any of them is the root.
inline Group random_group(std::mt19937& random, int ranks) {
  Group group;
  while (group.members.empty())
    for (Rank rank = 0; rank < ranks; ++rank)
      if (random() % 2 == 0) group.members.push_back(rank);
  group.root = group.members[random() % group.members.size()];
  return group;
}

/// Done when somebody says so, from any thread.
class ManualEvent : public Event::State {
 public:
  bool done() override { return done_; }
  void wait() override {
    while (!done_) std::this_thread::yield();
  }
  void set() { done_ = true; }

 private:
  std::atomic<bool> done_ = false;
};

}  // namespace sluice
