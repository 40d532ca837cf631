#include "core/route_choice.h"

#include <algorithm>
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

/// Idle links, and what messages take of them.
class Links {
 public:
  Links(const Cluster& cluster, CollectiveKind kind, Algorithm algorithm, std::size_t moves)
      : cluster_(cluster), kind_(kind), algorithm_(algorithm), moves_(moves), ranks_(cluster.ranks.size()) {
    int nodes = 0;
    for (const RankSpec& rank : cluster.ranks) nodes = std::max(nodes, rank.node + 1);
    nics_.resize(at(nodes));
  }

  [[nodiscard]] double seconds(const Move& move) const {
    return message_time(link_class(cluster_, link_between(cluster_, move.from, move.to), kind_, algorithm_, moves_),
                        move.bytes);
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
  const CollectiveKind kind_;
  const Algorithm algorithm_;
  const std::size_t moves_;
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

constexpr double kNanosecond = 1e-9;

/// Finds the best number of segments of a multicast. Its time falls with their number while the payload's time counts,
/// then rises with their latencies: a / k + b k + c (Hockney's pipelined chain), so the least is searched for as such.
class SegmentSearch {
 public:
  SegmentSearch(const Group& group, Algorithm algorithm, std::int64_t bytes, const Cluster& cluster)
      : group_(group), algorithm_(algorithm), bytes_(bytes), cluster_(cluster) {}

  RouteChoice run() {
    int best = 1;
    const int most = static_cast<int>(std::clamp<std::int64_t>(bytes_ / kLeastSegment, 1, kMostSegments));
    while (2 * best <= most && seconds(2 * best) < seconds(best)) best *= 2;
    for (int low = best / 2 + 1, high = std::min(most, 2 * best - 1); low < high;) {
      const int middle = (low + high) / 2;
      seconds(middle) <= seconds(middle + 1) ? high = middle : low = middle + 1;
    }
    for (const auto& [segments, time] : known_)
      if (time < seconds(best)) best = segments;
    return {{algorithm_, segment_bytes(best)}, seconds(best)};
  }

 private:
  [[nodiscard]] std::int64_t segment_bytes(int segments) const {
    return segments == 1 ? 0 : (bytes_ + segments - 1) / segments;
  }

  double seconds(int segments) {
    const auto [known, is_new] = known_.try_emplace(segments, 0);
    if (is_new)
      known->second =
          collective_time(CollectiveKind::multicast, group_, {algorithm_, segment_bytes(segments)}, bytes_, cluster_);
    return known->second;
  }

  const Group& group_;
  const Algorithm algorithm_;
  const std::int64_t bytes_;
  const Cluster& cluster_;
  std::map<int, double> known_;  // by number of segments
};

RouteChoice best_segments(CollectiveKind kind, const Group& group, Algorithm algorithm, std::int64_t bytes,
                          const Cluster& cluster) {
  const Route whole{algorithm, 0};
  if (kind == CollectiveKind::multicast && algorithm != Algorithm::mpi && bytes > 1 &&
      passes_on(multicast_moves(group, whole, bytes, cluster), group.root, bytes))
    return SegmentSearch(group, algorithm, bytes, cluster).run();
  return {whole, collective_time(kind, group, whole, bytes, cluster)};
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
    return kNanosecond * static_cast<double>(play_ring(ring, bytes, {cluster, kind, route.algorithm, ring.size()}));
  }
  return moves_time(collective_moves(kind, group, route, bytes, cluster), kind, route.algorithm, cluster);
}

double moves_time(std::span<const Move> moves, CollectiveKind kind, Algorithm algorithm, const Cluster& cluster) {
  return kNanosecond * static_cast<double>(play(moves, {cluster, kind, algorithm, moves.size()}));
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
