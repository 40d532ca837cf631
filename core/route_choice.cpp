#include "core/route_choice.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <set>
#include <utility>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"
#include "core/move_order.h"
#include "core/text.h"

namespace sluice {
namespace {

constexpr double kNanosecond = 1e-9;

/// Idle links, and what messages take of them.
class Links {
 public:
  Links(const Cluster& cluster, const LinkClasses& classes)
      : cluster_(cluster), classes_(classes), ranks_(cluster.ranks.size()) {
    int nodes = 0;
    for (const RankSpec& rank : cluster.ranks) nodes = std::max(nodes, rank.node + 1);
    nics_.resize(at(nodes));
  }

  [[nodiscard]] double seconds(const Move& move) const {
    return message_time(classes_[static_cast<std::size_t>(link_between(cluster_, move.from, move.to))], move.bytes);
  }

  /// Both links serve the message next, once it is ready. A copy takes none.
  /// @return when they are free again [ns]
  std::int64_t serve(const Move& move, std::int64_t ready_ns) {
    if (move.from == move.to) return ready_ns;
    const bool crosses = link_between(cluster_, move.from, move.to) == LinkKind::inter_node;
    std::int64_t& outgoing = (crosses ? nics_[node(move.from)] : ranks_[at(move.from)]).outgoing_ns;
    std::int64_t& incoming = (crosses ? nics_[node(move.to)] : ranks_[at(move.to)]).incoming_ns;
    outgoing = incoming = later_ns(std::max({ready_ns, outgoing, incoming}), seconds(move));
    return outgoing;
  }

 private:
  struct FreeAt {
    std::int64_t outgoing_ns = 0;
    std::int64_t incoming_ns = 0;
  };

  [[nodiscard]] std::size_t node(Rank rank) const { return at(cluster_.ranks[at(rank)].node); }

  const Cluster& cluster_;
  const LinkClasses classes_;
  std::vector<FreeAt> ranks_;  // links inside a node
  std::vector<FreeAt> nics_;   // by node
};

/// When the last move is done [ns].
std::int64_t play(std::span<const Move> moves, Links links) {
  using Ready = std::pair<std::int64_t, int>;  // when, and which move: the list's order among equals
  const MoveOrder order(moves);
  std::vector<int> waits(moves.size());
  std::vector<std::int64_t> ready_ns(moves.size(), 0);
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (int m = 0; m < std::ssize(moves); ++m)
    if ((waits[at(m)] = order.waits(m)) == 0) ready.emplace(0, m);
  std::int64_t last_ns = 0;
  while (!ready.empty()) {
    const auto [now_ns, move] = ready.top();
    ready.pop();
    const std::int64_t end_ns = links.serve(moves[at(move)], now_ns);
    last_ns = std::max(last_ns, end_ns);
    for (const int next : order.held_up(move)) {
      ready_ns[at(next)] = std::max(ready_ns[at(next)], end_ns);
      if (--waits[at(next)] == 0) ready.emplace(ready_ns[at(next)], next);
    }
  }
  return last_ns;
}

/// The same of a ring all-reduce whose chunks all have bytes, without a list: each edge has its links for itself and
/// sends in every round what came from the edge before in the last one.
std::int64_t play_ring(const std::vector<Edge>& ring, std::int64_t bytes, const Links& links) {
  const int members = static_cast<int>(ring.size());
  std::vector<std::int64_t> done_ns(ring.size(), 0), before_ns(ring.size(), 0);
  for (int round = 0; round < 2 * (members - 1); ++round) {
    done_ns.swap(before_ns);
    for (int i = 0; i < members; ++i) {
      const RingChunk chunk = ring_chunk(bytes, members, i - round + 2 * members);
      const Move move{.from = ring[at(i)].from, .to = ring[at(i)].to, .bytes = chunk.bytes};
      done_ns[at(i)] =
          later_ns(std::max(before_ns[at(i)], before_ns[at((i + members - 1) % members)]), links.seconds(move));
    }
  }
  return *std::max_element(done_ns.begin(), done_ns.end());
}

/// All of an all-reduce's moves are one ring: by name, or since each leader is alone on its node.
bool is_one_ring(const Group& group, Algorithm algorithm, const Cluster& cluster) {
  std::set<int> nodes;
  for (const Rank rank : group.members) nodes.insert(cluster.ranks[at(rank)].node);
  return group.members.size() > 1 && (algorithm == Algorithm::ring || nodes.size() == group.members.size());
}

/// Segments pay where somebody passes the whole payload on.
bool passes_on(std::span<const Move> moves, Rank root, std::int64_t bytes) {
  return std::all_of(moves.begin(), moves.end(), [&](const Move& move) { return move.bytes == bytes; }) &&
         std::any_of(moves.begin(), moves.end(), [&](const Move& move) { return move.from != root; });
}

RouteChoice best_segments(CollectiveKind kind, const Group& group, Algorithm algorithm, std::int64_t bytes,
                          const Cluster& cluster) {
  const auto choice = [&](std::int64_t segment_bytes) {
    const Route route{algorithm, segment_bytes};
    return RouteChoice{route, collective_time(kind, group, route, bytes, cluster)};
  };
  RouteChoice best = choice(0);
  if (kind != CollectiveKind::multicast || algorithm == Algorithm::mpi || bytes < 2 * kLeastSegment ||
      !passes_on(multicast_moves(group, best.route, bytes, cluster), group.root, bytes))
    return best;
  auto segment = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes / 2)));
  for (; segment >= kLeastSegment && (bytes + segment - 1) / segment <= kMostSegments; segment /= 2)
    if (const RouteChoice cut = choice(segment); cut.seconds < best.seconds) best = cut;
  return best;
}

std::vector<Algorithm> candidates(CollectiveKind kind, std::optional<Algorithm> asked) {
  if (asked) {
    if (!knows(*asked, kind))
      throw bad_input(
          text(to_string(kind), " has no algorithm ", to_string(*asked), ", expected one of ", algorithm_names(kind)));
    return {*asked};
  }
  std::vector<Algorithm> aware;
  for (const Algorithm algorithm : algorithms(kind))
    if (aware_of_nodes(algorithm)) aware.push_back(algorithm);
  return aware;
}

}  // namespace

double collective_time(CollectiveKind kind, const Group& group, const Route& route, std::int64_t bytes,
                       const Cluster& cluster) {
  if (kind == CollectiveKind::all_reduce && is_one_ring(group, route.algorithm, cluster) &&
      bytes / static_cast<std::int64_t>(sizeof(float)) >= std::ssize(group.members)) {
    const std::vector<Edge> ring = ring_edges(group, cluster);
    const LinkClasses classes = link_classes(cluster, kind, route, bytes, ring.size());
    return kNanosecond * static_cast<double>(play_ring(ring, bytes, {cluster, classes}));
  }
  const std::vector<Move> moves = collective_moves(kind, group, route, bytes, cluster);
  return moves_time(moves, link_classes(cluster, kind, route, bytes, moves.size()), cluster);
}

double moves_time(std::span<const Move> moves, const LinkClasses& classes, const Cluster& cluster) {
  return kNanosecond * static_cast<double>(play(moves, {cluster, classes}));
}

RouteChoice choose_route(CollectiveKind kind, const Group& group, std::int64_t bytes, const Cluster& cluster,
                         std::optional<Algorithm> asked) {
  std::optional<RouteChoice> best;
  for (const Algorithm algorithm : candidates(kind, asked)) {
    const RouteChoice choice = best_segments(kind, group, algorithm, bytes, cluster);
    if (!best || choice.seconds < best->seconds) best = choice;
    if (group.members.size() <= 2 && kind == CollectiveKind::multicast) break;  // all alike
  }
  return *best;
}

const RouteChoice& RouteChooser::choose(CollectiveKind kind, const Group& group, std::int64_t bytes) {
  std::vector<int> nodes;
  for (const Rank member : group.members) nodes.push_back(cluster_.ranks[at(member)].node);
  std::vector<int> ascending = nodes;
  std::sort(ascending.begin(), ascending.end());
  ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
  for (int& node : nodes)
    node = static_cast<int>(std::lower_bound(ascending.begin(), ascending.end(), node) - ascending.begin());
  const int root = place_of(group, group.root);
  Seating seating{kind, bytes, root, std::move(nodes)};
  if (const auto known = known_.find(seating); known != known_.end()) return known->second;
  // On a cluster of the members alone: time depends on the group, not on who else there is.
  Cluster seated;
  seated.node_names.resize(ascending.size());
  seated.intra_node = cluster_.intra_node;
  seated.inter_node = cluster_.inter_node;
  seated.algorithm_costs = cluster_.algorithm_costs;
  Group members{.root = root, .members = {}};
  for (const int node : seating.nodes) {
    members.members.push_back(static_cast<Rank>(seated.ranks.size()));
    seated.ranks.push_back({.node = node});
  }
  const auto asked = kind == CollectiveKind::all_reduce ? all_reduce_ : multicast_;
  const RouteChoice choice = choose_route(kind, members, bytes, seated, asked);
  return known_.emplace(std::move(seating), choice).first->second;
}

void choose_routes(Plan& plan) {
  RouteChooser routes(plan.cluster, plan.multicast, plan.all_reduce);
  for (Transfer& transfer : plan.transfers) {
    const RouteChoice& choice =
        routes.choose(collective_of(transfer.payload), plan.groups[at(transfer.group)], transfer.bytes);
    transfer.route = choice.route;
    transfer.predicted_s = choice.seconds;
  }
}

}  // namespace sluice
