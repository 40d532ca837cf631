#include "core/moves.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "core/move_order.h"
#include "tests/unit/core/random_groups.h"

namespace sluice {
namespace {

using random_groups::number;
using random_groups::Seated;

using Bytes = std::vector<unsigned char>;
using Payloads = std::map<Rank, Bytes>;

constexpr std::array<std::int64_t, 9> kSizes{0, 1, 2, 3, 7, 64, 1000, 1001, 4099};

Route any_route(std::mt19937& random, CollectiveKind kind, std::int64_t bytes) {
  const auto known = algorithms(kind);
  const std::array<std::int64_t, 5> segments{0, 1, 5, 64, bytes + 1};
  Route route{known[at(number(random, 0, static_cast<int>(known.size()) - 1))], 0};
  if (kind == CollectiveKind::multicast) route.segment_bytes = segments[at(number(random, 0, 4))];
  return route;
}

/// The root has a payload, the others have something else.
Payloads before_multicast(const Group& group, std::int64_t bytes) {
  Payloads payloads;
  for (const Rank rank : group.members)
    for (std::int64_t i = 0; i < bytes; ++i)
      payloads[rank].push_back(static_cast<unsigned char>(rank == group.root ? i * 7 % 251 : 255));
  for (const Rank rank : group.members) payloads.try_emplace(rank);
  return payloads;
}

/// Small whole numbers, whose sums are exact in any order; bytes that make no float are 0.
Payloads before_all_reduce(const Group& group, std::int64_t bytes) {
  Payloads payloads;
  for (const Rank rank : group.members) {
    Bytes& payload = payloads[rank];
    payload.assign(static_cast<std::size_t>(bytes), 0);
    for (std::int64_t i = 0; i < bytes / 4; ++i) {
      const float value = static_cast<float>((rank + 1) * (i % 97 + 1));
      std::memcpy(&payload[static_cast<std::size_t>(4 * i)], &value, sizeof value);
    }
  }
  return payloads;
}

Bytes sum_of(const Payloads& payloads, std::int64_t bytes) {
  Bytes sum(static_cast<std::size_t>(bytes), 0);
  for (std::size_t i = 0; i + 4 <= sum.size(); i += 4) {
    float total = 0;
    for (const auto& [rank, payload] : payloads) {
      float value = 0;
      std::memcpy(&value, &payload[i], sizeof value);
      total += value;
    }
    std::memcpy(&sum[i], &total, sizeof total);
  }
  return sum;
}

void deliver(const Bytes& message, std::int64_t offset, bool adds, Bytes& payload) {
  const auto begin = static_cast<std::size_t>(offset);
  ASSERT_LE(begin + message.size(), payload.size());
  if (!adds) {
    std::copy(message.begin(), message.end(), payload.begin() + offset);
    return;
  }
  ASSERT_EQ(begin % 4, 0U);
  for (std::size_t i = 0; i + 4 <= message.size(); i += 4) {
    float mine = 0, other = 0;
    std::memcpy(&mine, &payload[begin + i], sizeof mine);
    std::memcpy(&other, &message[i], sizeof other);
    mine += other;
    std::memcpy(&payload[begin + i], &mine, sizeof mine);
  }
}

Bytes part_of(const Bytes& payload, std::int64_t offset, std::int64_t bytes) {
  return {payload.begin() + offset, payload.begin() + offset + bytes};
}

void play_in_order(const std::vector<Move>& moves, Payloads& payloads) {
  for (const Move& move : moves)
    deliver(part_of(payloads.at(move.from), move.offset, move.bytes), move.target, move.adds, payloads.at(move.to));
}

/// What a runtime does: each rank has its own steps alone and takes any that waits for nothing, but those with one peer
/// in their order.
void play_steps_at_random(const std::vector<Move>& moves, Payloads& payloads, std::mt19937& random) {
  struct Under {
    std::vector<Step> steps;
    std::vector<bool> done;
  };
  std::map<Rank, Under> ranks;
  std::map<std::pair<Rank, Rank>, std::deque<Bytes>> wires;
  std::size_t left = 0;
  for (auto& [rank, payload] : payloads) {
    Under& under = ranks[rank];
    under.steps = steps_of(rank, moves);
    under.done.assign(under.steps.size(), false);
    left += under.steps.size();
  }
  const auto first_with_peer = [](const Under& under, std::size_t s) {
    for (std::size_t e = 0; e < s; ++e)
      if (!under.done[e] && under.steps[e].peer == under.steps[s].peer && under.steps[e].sends == under.steps[s].sends)
        return false;
    return true;
  };
  while (left > 0) {
    std::vector<std::pair<Rank, std::size_t>> legal;
    for (const auto& [rank, under] : ranks)
      for (std::size_t s = 0; s < under.steps.size(); ++s) {
        const Step& step = under.steps[s];
        if (under.done[s] || !first_with_peer(under, s)) continue;
        if (!step.sends && wires[{step.peer, rank}].empty()) continue;
        if (std::all_of(step.after.begin(), step.after.end(), [&](int a) { return under.done[at(a)]; }))
          legal.emplace_back(rank, s);
      }
    ASSERT_FALSE(legal.empty()) << left << " steps wait for each other";
    const auto [rank, s] = legal[at(number(random, 0, static_cast<int>(legal.size()) - 1))];
    Under& under = ranks.at(rank);
    const Step& step = under.steps[s];
    if (step.sends) {
      wires[{rank, step.peer}].push_back(part_of(payloads.at(rank), step.offset, step.bytes));
    } else {
      std::deque<Bytes>& wire = wires[{step.peer, rank}];
      ASSERT_EQ(std::ssize(wire.front()), step.bytes);
      deliver(wire.front(), step.offset, step.adds, payloads.at(rank));
      wire.pop_front();
    }
    under.done[s] = true;
    --left;
  }
}

/// Ranks 0 to 6, each on its own node.
TEST(MulticastMoves, of_a_tree_go_from_each_leader_to_two) {
  const Group group{.root = 0, .members = {0, 1, 2, 3, 4, 5, 6}};
  std::vector<Edge> edges;
  for (const Move& move : multicast_moves(group, {Algorithm::tree, 0}, 8, uniform_cluster(7, 1, {}, {})))
    edges.push_back({move.from, move.to});
  EXPECT_EQ(edges, (std::vector<Edge>{{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 5}, {2, 6}}));
}

TEST(MulticastMoves, give_every_member_the_roots_bytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const Seated made = random_groups::seated(random);
    const std::int64_t bytes = kSizes[at(round % std::ssize(kSizes))];
    const Route route = any_route(random, CollectiveKind::multicast, bytes);
    Payloads payloads = before_multicast(made.group, bytes);
    const Bytes sent = payloads.at(made.group.root);
    play_in_order(multicast_moves(made.group, route, bytes, made.cluster), payloads);
    for (const auto& [rank, payload] : payloads)
      ASSERT_EQ(payload, sent) << "round " << round << ", rank " << rank << ", " << to_string(route.algorithm) << ", "
                               << bytes << " B in " << route.segment_bytes << ", " << random_groups::shown(made);
  }
}

TEST(MulticastMoves, bring_every_byte_into_each_remote_node_once_and_none_into_the_roots) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const Seated made = random_groups::seated(random);
    const std::int64_t bytes = kSizes[at(round % std::ssize(kSizes))];
    const Route route = any_route(random, CollectiveKind::multicast, bytes);
    if (!aware_of_nodes(route.algorithm)) continue;
    const auto node = [&](Rank rank) { return made.cluster.ranks[at(rank)].node; };
    std::map<int, std::vector<int>> entries;
    for (const Rank rank : made.group.members)
      if (node(rank) != node(made.group.root)) entries[node(rank)].assign(static_cast<std::size_t>(bytes), 0);
    for (const Move& move : multicast_moves(made.group, route, bytes, made.cluster)) {
      if (node(move.from) == node(move.to)) continue;
      ASSERT_NE(node(move.to), node(made.group.root)) << "round " << round;
      for (std::int64_t i = 0; i < move.bytes; ++i) ++entries[node(move.to)][static_cast<std::size_t>(move.target + i)];
    }
    for (const auto& [n, counts] : entries)
      ASSERT_EQ(std::count(counts.begin(), counts.end(), 1), bytes)
          << "round " << round << ", node " << n << ", " << to_string(route.algorithm) << ", "
          << random_groups::shown(made);
  }
}

TEST(AllReduceMoves, give_every_member_the_sum) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const Seated made = random_groups::seated(random);
    const std::int64_t bytes = kSizes[at(round % std::ssize(kSizes))];
    const Route route = any_route(random, CollectiveKind::all_reduce, bytes);
    Payloads payloads = before_all_reduce(made.group, bytes);
    const Bytes sum = sum_of(payloads, bytes);
    play_in_order(all_reduce_moves(made.group, route, bytes, made.cluster), payloads);
    for (const auto& [rank, payload] : payloads)
      ASSERT_EQ(payload, sum) << "round " << round << ", rank " << rank << ", " << to_string(route.algorithm) << ", "
                              << bytes << " B, " << random_groups::shown(made);
  }
}

TEST(AllReduceMoves, pass_long_payloads_through_a_node_in_segments) {
  const Seated made{random_groups::cluster_of({0, 0, 0, 1}), {.root = 2, .members = {0, 1, 2, 3}}};
  const std::int64_t bytes = (std::int64_t{5} << 19) + 12;
  Payloads payloads = before_all_reduce(made.group, bytes);
  const Bytes sum = sum_of(payloads, bytes);
  play_in_order(all_reduce_moves(made.group, {Algorithm::hierarchical, 0}, bytes, made.cluster), payloads);
  for (const auto& [rank, payload] : payloads) EXPECT_EQ(payload, sum) << "rank " << rank;
}

/// Foreign models may have layers of any size; their lists of moves are made while routes are chosen.
TEST(AllReduceMoves, are_few_however_long_the_payload) {
  const Seated made{random_groups::cluster_of({0, 0, 0, 1}), {.root = 2, .members = {0, 1, 2, 3}}};
  for (const std::int64_t bytes : {std::int64_t{1} << 33, std::int64_t{1} << 53}) {
    const auto moves = all_reduce_moves(made.group, {Algorithm::hierarchical, 0}, bytes, made.cluster);
    EXPECT_LT(moves.size(), 20'000u) << bytes << " B";
    std::int64_t carried = 0;
    for (const Move& move : moves) {
      carried += move.bytes;
      ASSERT_EQ(move.offset % 4, 0) << "a sum of whole floats, " << bytes << " B";
    }
    EXPECT_EQ(carried, (2 * 2 + 2) * bytes) << "up and down two edges, and a ring of two leaders";
  }
}

/// What a hierarchical all-reduce carries into and out of a node is what a ring of leaders does.
TEST(AllReduceMoves, cross_nodes_as_a_ring_of_leaders_does) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const Seated made = random_groups::seated(random);
    const std::int64_t bytes = 4 * number(random, 0, 500);
    std::set<int> nodes;
    for (const Rank rank : made.group.members) nodes.insert(made.cluster.ranks[at(rank)].node);
    std::int64_t crossing = 0;
    for (const Move& move : all_reduce_moves(made.group, {Algorithm::hierarchical, 0}, bytes, made.cluster))
      if (link_between(made.cluster, move.from, move.to) == LinkKind::inter_node) crossing += move.bytes;
    EXPECT_EQ(crossing, 2 * (std::ssize(nodes) - 1) * bytes) << "round " << round << ", " << random_groups::shown(made);
  }
}

TEST(Steps, give_the_same_bytes_in_any_order_that_their_waits_allow) {
  std::mt19937 random(5);
  for (int round = 0; round < 600; ++round) {
    const Seated made = random_groups::seated(random, 7, 3);
    const std::int64_t bytes = kSizes[at(round % 7)];
    const auto kind = round % 2 == 0 ? CollectiveKind::multicast : CollectiveKind::all_reduce;
    Route route = any_route(random, kind, bytes);
    if (bytes > 100 && route.segment_bytes == 1) route.segment_bytes = 100;
    const bool sums = kind == CollectiveKind::all_reduce;
    const std::vector<Move> moves = sums ? all_reduce_moves(made.group, route, bytes, made.cluster)
                                         : multicast_moves(made.group, route, bytes, made.cluster);
    Payloads payloads = sums ? before_all_reduce(made.group, bytes) : before_multicast(made.group, bytes);
    const Bytes expected = sums ? sum_of(payloads, bytes) : payloads.at(made.group.root);
    play_steps_at_random(moves, payloads, random);
    for (const auto& [rank, payload] : payloads)
      ASSERT_EQ(payload, expected) << "round " << round << ", rank " << rank << ", " << to_string(route.algorithm)
                                   << ", " << bytes << " B in " << route.segment_bytes << ", "
                                   << random_groups::shown(made);
  }
}

/// Whether `later` may not begin before `earlier` is done, step by step of the list.
std::vector<std::vector<bool>> closure(const std::vector<Step>& steps) {
  std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size(), false));
  for (std::size_t s = 0; s < steps.size(); ++s)
    for (const int a : steps[s].after) {
      before[s][at(a)] = true;
      for (std::size_t e = 0; e < s; ++e)
        if (before[at(a)][e]) before[s][e] = true;
    }
  return before;
}

TEST(Steps, wait_for_all_that_conflict_and_for_no_others_by_themselves) {
  std::mt19937 random(6);
  for (int round = 0; round < 3000; ++round) {
    std::vector<Move> moves;
    for (int count = number(random, 0, 15); count > 0; --count) {
      const bool sends = number(random, 0, 1) == 0;
      moves.push_back({.from = sends ? 0 : 1,
                       .to = sends ? 1 : 0,
                       .offset = number(random, 0, 6),
                       .target = number(random, 0, 6),
                       .bytes = number(random, 0, 4),
                       .adds = number(random, 0, 1) == 0});
    }
    const std::vector<Step> steps = steps_of(0, moves);
    const auto before = closure(steps);
    std::vector<Step> pairwise = steps;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      pairwise[s].after.clear();
      for (std::size_t e = 0; e < s; ++e) {
        const auto end = [](const Step& step) { return step.offset + std::max<std::int64_t>(1, step.bytes); };
        const bool conflict =
            !(steps[s].sends && steps[e].sends) && steps[s].offset < end(steps[e]) && steps[e].offset < end(steps[s]);
        if (conflict) pairwise[s].after.push_back(static_cast<int>(e));
      }
      for (const int a : steps[s].after)
        EXPECT_TRUE(std::count(pairwise[s].after.begin(), pairwise[s].after.end(), a)) << "round " << round;
    }
    EXPECT_EQ(before, closure(pairwise)) << "round " << round;
  }
}

}  // namespace
}  // namespace sluice
