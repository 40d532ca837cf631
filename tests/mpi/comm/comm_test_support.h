#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "core/cluster.h"
#include "core/moves.h"
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

inline Communicator with_chunks_of(std::int64_t chunk_bytes) {
  CommunicatorSettings settings = CommunicatorSettings::from_environment();
  settings.chunk_bytes = chunk_bytes;
  return Communicator::world(settings);
}

/// The same processes in any order, the same at all.
inline std::vector<Rank> random_order(std::mt19937& random, int ranks) {
  std::vector<Rank> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// One message.
inline Operation start_message(Communicator& communicator, Edge edge, void* data, std::int64_t bytes, int tag,
                               Event ready = {}) {
  const Group group{.root = edge.from, .members = {std::min(edge.from, edge.to), std::max(edge.from, edge.to)}};
  return communicator.start(communicator.prepare(CollectiveKind::multicast, group, {.algorithm = Algorithm::flat},
                                                 bytes, cluster_of(communicator)),
                            data, tag, std::move(ready));
}

/// Bytes of the rank's moves, by link class: sent, or received.
inline LinkBytes bytes_of(const std::vector<Move>& moves, Rank rank, bool sent, const Cluster& cluster) {
  LinkBytes bytes{};
  for (const Move& move : moves)
    if (move.from != move.to && (sent ? move.from : move.to) == rank)
      bytes[static_cast<std::size_t>(link_between(cluster, move.from, move.to))] += move.bytes;
  return bytes;
}

inline void add(LinkBytes& sum, const LinkBytes& bytes) {
  for (std::size_t link = 0; link < sum.size(); ++link) sum[link] += bytes[link];
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
