#include "core/moves.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/index.h"
#include "core/move_order.h"
#include "core/plan.h"

namespace sluice {
namespace {

using Ranks = std::vector<Rank>;

/// Members of one node after the other, the leader first in each; the root and its node in front.
std::vector<Ranks> members_by_node(const Group& group, const Cluster& cluster) {
  std::vector<Ranks> nodes{{group.root}};
  std::map<int, std::size_t> place{{cluster.ranks[at(group.root)].node, 0}};
  for (const Rank member : group.members) {
    if (member == group.root) continue;
    const auto [found, is_leader] = place.try_emplace(cluster.ranks[at(member)].node, nodes.size());
    if (is_leader) nodes.emplace_back();
    nodes[found->second].push_back(member);
  }
  return nodes;
}

Ranks leaders_of(const std::vector<Ranks>& nodes) {
  Ranks leaders;
  for (const Ranks& node : nodes) leaders.push_back(node.front());
  return leaders;
}

/// The edges of a tree that spreads from ranks[0], in an order in which each sender already holds the payload.
std::vector<Edge> spread(Algorithm shape, const Ranks& ranks) {
  std::vector<Edge> edges;
  const int count = static_cast<int>(ranks.size());
  const auto add = [&](int from, int to) { edges.push_back({ranks[at(from)], ranks[at(to)]}); };
  if (shape == Algorithm::binomial || shape == Algorithm::mpi) {
    int distance = 1;
    while (distance < count) distance *= 2;
    for (distance /= 2; distance > 0; distance /= 2)  // who has it sends it to the middle of what it still serves
      for (int from = 0; from + distance < count; from += 2 * distance) add(from, from + distance);
    return edges;
  }
  for (int to = 1; to < count; ++to) {
    const bool is_chain = shape == Algorithm::chain, is_tree = shape == Algorithm::tree;
    add(is_chain ? to - 1 : is_tree ? (to - 1) / 2 : 0, to);
  }
  return edges;
}

/// The members from the root on, cyclically.
Ranks from_root(const Group& group) {
  Ranks ranks = group.members;
  std::rotate(ranks.begin(), std::find(ranks.begin(), ranks.end(), group.root), ranks.end());
  return ranks;
}

/// All edges of a multicast that is a tree.
std::vector<Edge> tree_edges(Algorithm algorithm, const Group& group, const Cluster& cluster) {
  if (!aware_of_nodes(algorithm)) return spread(algorithm, from_root(group));
  const std::vector<Ranks> nodes = members_by_node(group, cluster);
  // Across nodes first: the leaders can pass on while the root serves its own node.
  std::vector<Edge> edges = spread(algorithm, leaders_of(nodes));
  for (const Ranks& node : nodes) {
    const std::vector<Edge> inside = spread(algorithm, node);
    edges.insert(edges.end(), inside.begin(), inside.end());
  }
  return edges;
}

Move move_along(const Edge& edge, std::int64_t offset, std::int64_t bytes, bool adds = false) {
  return {.from = edge.from, .to = edge.to, .offset = offset, .target = offset, .bytes = bytes, .adds = adds};
}

std::vector<Move> segmented(const std::vector<Edge>& edges, std::int64_t bytes, std::int64_t segment_bytes) {
  const std::int64_t segment = segment_bytes > 0 ? segment_bytes : std::max<std::int64_t>(1, bytes);
  std::vector<Move> moves;
  std::int64_t offset = 0;
  do {
    for (const Edge& edge : edges) moves.push_back(move_along(edge, offset, std::min(segment, bytes - offset)));
    offset += segment;
  } while (offset < bytes);
  return moves;
}

/// The index-th of `parts` nearly equal parts of `count` things: where it begins, and how many it has.
std::pair<std::int64_t, std::int64_t> part_of(std::int64_t count, int parts, int index) {
  const std::int64_t each = count / parts, larger = count % parts;
  return {each * index + std::min<std::int64_t>(index, larger), each + (index < larger ? 1 : 0)};
}

Move part_along(const Edge& edge, std::int64_t bytes, int parts, int index) {
  const auto [begin, size] = part_of(bytes, parts, index);
  return move_along(edge, begin, size);
}

std::vector<Move> scatter_allgather(const Group& group, std::int64_t bytes, const Cluster& cluster) {
  const std::vector<Ranks> nodes = members_by_node(group, cluster);
  const int parts = static_cast<int>(nodes.size()) - 1;
  std::vector<Move> moves;
  const auto spread_inside = [&](const Ranks& node, int part) {
    for (const Edge& edge : spread(Algorithm::hierarchical, node))
      moves.push_back(part_along(edge, bytes, parts, part));
  };
  for (int i = 0; i < parts; ++i) moves.push_back(part_along({group.root, nodes[at(i + 1)].front()}, bytes, parts, i));
  for (const Edge& edge : spread(Algorithm::hierarchical, nodes.front())) moves.push_back(move_along(edge, 0, bytes));
  for (int i = 0; i < parts; ++i) spread_inside(nodes[at(i + 1)], i);
  for (int round = 1; round < parts; ++round)
    for (int i = 0; i < parts; ++i) {
      const int next = (i + 1) % parts, part = (i - round + 1 + parts) % parts;
      moves.push_back(part_along({nodes[at(i + 1)].front(), nodes[at(next + 1)].front()}, bytes, parts, part));
      spread_inside(nodes[at(next + 1)], part);
    }
  return moves;
}

/// Appends the 2 (r-1) rounds of a ring.
void add_ring(const std::vector<Edge>& ring, std::int64_t bytes, std::vector<Move>& moves) {
  const int members = static_cast<int>(ring.size()), rounds = 2 * (members - 1);
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < members; ++i) {
      const RingChunk chunk = ring_chunk(bytes, members, i - round + rounds + 2);
      moves.push_back(move_along(ring[at(i)], chunk.offset, chunk.bytes, round < members - 1));
    }
}

/// Segments of a chain inside a node, in whole floats: 1 MiB, how much may lie at the members that still have to add,
/// or what keeps the list of moves short where a layer has more than 4 GiB of gradients.
std::int64_t segment_inside(std::int64_t bytes) {
  constexpr std::int64_t kUsual = 1 << 20, kMost = 4096;
  constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
  return std::max(kUsual, (bytes / kMost / kFloat + 1) * kFloat);
}

std::vector<Move> hierarchical_all_reduce(const Group& group, std::int64_t bytes, const Cluster& cluster) {
  const std::vector<Ranks> nodes = members_by_node(group, cluster);
  std::vector<Edge> up, down;
  for (const Ranks& node : nodes) {
    const std::vector<Edge> chain = spread(Algorithm::chain, node);
    down.insert(down.end(), chain.begin(), chain.end());
    for (auto edge = chain.rbegin(); edge != chain.rend(); ++edge) up.push_back({edge->to, edge->from});
  }
  std::vector<Move> moves = segmented(up, bytes, segment_inside(bytes));
  for (Move& move : moves) move.adds = true;
  Ranks leaders = leaders_of(nodes);
  std::sort(leaders.begin(), leaders.end());
  add_ring(ring_edges({.root = leaders.front(), .members = leaders}, cluster), bytes, moves);
  const std::vector<Move> back = segmented(down, bytes, segment_inside(bytes));
  moves.insert(moves.end(), back.begin(), back.end());
  return moves;
}

/// Builds the moves of an all-to-all; places of blocks as all_to_all_moves says.
class AllToAll {
 public:
  AllToAll(const Group& group, std::int64_t block_bytes, const Cluster& cluster)
      : members_(group.members), bytes_(block_bytes) {
    for (const Ranks& node : members_by_node(group, cluster)) {
      std::vector<int> places;
      for (const Rank member : node) places.push_back(place_of(group, member));
      nodes_.push_back(std::move(places));
    }
  }

  /// From each of `from` straight to each of `to`, in rounds in which nobody is sent to twice.
  void straight(const std::vector<int>& from, const std::vector<int>& to) {
    for (std::size_t round = 0; round < to.size(); ++round)
      for (std::size_t i = 0; i < from.size(); ++i) {
        const int target = to[(i + round) % to.size()];
        add(from[i], target, sent(target), received(from[i]), 1);
      }
  }

  void by_leaders() {
    for (const auto& node : nodes_) straight(node, node);
    for (const auto& node : nodes_)
      for (const auto& other : nodes_)
        if (&other != &node) gather(node, other);
    for (std::size_t round = 1; round < nodes_.size(); ++round)
      for (std::size_t i = 0; i < nodes_.size(); ++i) exchange(nodes_[i], nodes_[(i + round) % nodes_.size()]);
    for (const auto& node : nodes_)
      for (const auto& other : nodes_)
        if (&other != &node) spread_from(other, node);
  }

  [[nodiscard]] std::vector<Move> take() && { return std::move(moves_); }

 private:
  using Node = std::vector<int>;  // places of its members in the group, the leader first

  [[nodiscard]] std::int64_t count() const { return std::ssize(members_); }
  [[nodiscard]] static std::int64_t sent(int to) { return to; }  // all in blocks
  [[nodiscard]] std::int64_t received(int from) const { return count() + from; }

  /// Where a leader has what its node's members and those of `other` exchange: first all that leaves, then all that
  /// comes, each by other node, then by receiver, then by sender.
  [[nodiscard]] std::int64_t scratch(const Node& node, const Node& other, bool comes) const {
    const std::int64_t others = count() - std::ssize(node);
    std::int64_t before = 2 * count() + (comes ? others * std::ssize(node) : 0);
    for (const Node& earlier : nodes_) {
      if (&earlier == &other) break;
      if (&earlier != &node) before += std::ssize(node) * std::ssize(earlier);
    }
    return before;
  }

  void gather(const Node& node, const Node& other) {
    std::int64_t place = scratch(node, other, false);
    for (const int receiver : other)
      for (const int sender : node) add(sender, node.front(), sent(receiver), place++, 1);
  }

  void exchange(const Node& from, const Node& to) {
    add(from.front(), to.front(), scratch(from, to, false), scratch(to, from, true), std::ssize(from) * std::ssize(to));
  }

  void spread_from(const Node& other, const Node& node) {
    std::int64_t place = scratch(node, other, true);
    for (const int receiver : node)
      for (const int sender : other) add(node.front(), receiver, place++, received(sender), 1);
  }

  void add(int from, int to, std::int64_t block, std::int64_t target, std::int64_t blocks) {
    if (from == to && bytes_ == 0) return;  // nothing to copy
    moves_.push_back({.from = members_[at(from)],
                      .to = members_[at(to)],
                      .offset = block * bytes_,
                      .target = target * bytes_,
                      .bytes = blocks * bytes_});
  }

  Ranks members_;
  std::int64_t bytes_;
  std::vector<Node> nodes_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> multicast_moves(const Group& group, const Route& route, std::int64_t bytes, const Cluster& cluster) {
  const bool scatters = route.algorithm == Algorithm::scatter_allgather;
  if (scatters && members_by_node(group, cluster).size() > 2) return scatter_allgather(group, bytes, cluster);
  const std::vector<Edge> edges = tree_edges(scatters ? Algorithm::hierarchical : route.algorithm, group, cluster);
  return edges.empty() ? std::vector<Move>{} : segmented(edges, bytes, route.segment_bytes);
}

std::vector<Move> all_reduce_moves(const Group& group, const Route& route, std::int64_t bytes, const Cluster& cluster) {
  if (group.members.size() < 2) return {};
  if (route.algorithm == Algorithm::hierarchical) return hierarchical_all_reduce(group, bytes, cluster);
  std::vector<Move> moves;
  add_ring(ring_edges(group, cluster), bytes, moves);
  return moves;
}

std::vector<Move> collective_moves(CollectiveKind kind, const Group& group, const Route& route, std::int64_t bytes,
                                   const Cluster& cluster) {
  switch (kind) {
    case CollectiveKind::multicast:
      return multicast_moves(group, route, bytes, cluster);
    case CollectiveKind::all_reduce:
      return all_reduce_moves(group, route, bytes, cluster);
    case CollectiveKind::all_to_all:
      return all_to_all_moves(group, route, bytes, cluster);
  }
  return {};
}

std::vector<Move> moves_of(const Plan& plan, const Transfer& transfer) {
  return collective_moves(collective_of(transfer.payload), plan.groups[at(transfer.group)], transfer.route,
                          transfer.bytes, plan.cluster);
}

std::vector<Move> all_to_all_moves(const Group& group, const Route& route, std::int64_t block_bytes,
                                   const Cluster& cluster) {
  AllToAll moves(group, block_bytes, cluster);
  std::vector<int> everyone(group.members.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  if (route.algorithm == Algorithm::hierarchical)
    moves.by_leaders();
  else
    moves.straight(everyone, everyone);
  return std::move(moves).take();
}

std::vector<Edge> ring_edges(const Group& group, const Cluster& cluster) {
  std::vector<Rank> ring = group.members;
  std::sort(ring.begin(), ring.end(), [&](Rank a, Rank b) {
    return std::pair(cluster.ranks[at(a)].node, a) < std::pair(cluster.ranks[at(b)].node, b);
  });
  std::vector<Edge> edges;
  for (std::size_t i = 0; ring.size() > 1 && i < ring.size(); ++i)
    edges.push_back({ring[i], ring[(i + 1) % ring.size()]});
  return edges;
}

RingChunk ring_chunk(std::int64_t bytes, int members, int index) {
  constexpr std::int64_t kFloat = sizeof(float);
  const int i = index % members;
  const auto [begin, floats] = part_of(bytes / kFloat, members, i);
  const std::int64_t rest = i == members - 1 ? bytes % kFloat : 0;
  return {.offset = kFloat * begin, .bytes = kFloat * floats + rest};
}

std::vector<Step> steps_of(Rank rank, std::span<const Move> moves) {
  std::vector<Step> steps;
  for (const Move& move : moves) {
    if (move.from == rank)
      steps.push_back({.sends = true, .peer = move.to, .offset = move.offset, .bytes = move.bytes, .adds = move.adds});
    if (move.to == rank)
      steps.push_back({.peer = move.from, .offset = move.target, .bytes = move.bytes, .adds = move.adds});
  }
  std::vector<Access> accesses;
  for (const Step& step : steps) accesses.push_back({step.sends, step.offset, step.bytes});
  Conflicts().find(accesses, [&](int earlier, int later) { steps[at(later)].after.push_back(earlier); });
  for (Step& step : steps) std::sort(step.after.begin(), step.after.end());
  return steps;
}

}  // namespace sluice
