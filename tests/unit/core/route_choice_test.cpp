#include "core/route_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/error.h"
#include "tests/unit/core/random_groups.h"

namespace sluice {
namespace {

using random_groups::number;
using random_groups::Seated;

/// Whole nanoseconds come out: a byte takes 2 ns.
constexpr double kAlpha = 1000e-9, kBeta = 2e-9;
constexpr LinkClass kLink{.latency_s = kAlpha, .bandwidth_bytes_per_s = 1 / kBeta};

Seated one_a_node(int members) {
  Seated made{uniform_cluster(members, 1, {}, kLink), {.root = 0, .members = {}}};
  for (Rank rank = 0; rank < members; ++rank) made.group.members.push_back(rank);
  return made;
}

double multicast_time(const Seated& made, Route route, std::int64_t bytes) {
  return collective_time(CollectiveKind::multicast, made.group, route, bytes, made.cluster);
}
double all_reduce_time(const Seated& made, Algorithm algorithm, std::int64_t bytes) {
  return collective_time(CollectiveKind::all_reduce, made.group, {algorithm, 0}, bytes, made.cluster);
}

constexpr double kHalfNs = 0.5e-9;

// Closed forms of p ranks, one on each node (Thakur, Rabenseifner, Gropp 2005; Hockney's alpha and beta).

TEST(CollectiveTime, of_a_binomial_tree_takes_lg_p_messages) {
  for (const std::int64_t n : {0, 1, 4096, 1'000'000})
    for (int lg = 0; lg <= 5; ++lg)
      for (const Algorithm algorithm : {Algorithm::binomial, Algorithm::mpi}) {
        const double hockney = lg * (kAlpha + static_cast<double>(n) * kBeta);
        EXPECT_NEAR(multicast_time(one_a_node(1 << lg), {algorithm, 0}, n), hockney, kHalfNs) << n << " B, lg " << lg;
      }
}

TEST(CollectiveTime, of_a_chain_takes_a_message_for_each_member_and_further_segment) {
  for (const int p : {2, 3, 5, 16})
    for (const int segments : {1, 2, 10, 50}) {
      const double n = 100'000, s = n / segments;
      const double hockney = (p - 2 + n / s) * (kAlpha + s * kBeta);
      EXPECT_NEAR(multicast_time(one_a_node(p), {Algorithm::chain, 100'000 / segments}, 100'000), hockney, kHalfNs)
          << p << " members, " << segments << " segments";
    }
}

TEST(CollectiveTime, of_a_star_takes_a_message_for_each_member) {
  for (const int p : {1, 2, 3, 16})
    for (const Algorithm algorithm : {Algorithm::flat, Algorithm::hierarchical})
      EXPECT_NEAR(multicast_time(one_a_node(p), {algorithm, 0}, 5000), (p - 1) * (kAlpha + 5000 * kBeta), kHalfNs);
}

TEST(CollectiveTime, of_a_ring_all_reduce_takes_two_p_minus_one_rounds) {
  for (const int p : {2, 3, 8, 100}) {
    const std::int64_t n = 4 * 100 * p;
    const double hockney = 2 * (p - 1) * (kAlpha + static_cast<double>(n / p) * kBeta);
    EXPECT_NEAR(all_reduce_time(one_a_node(p), Algorithm::ring, n), hockney, kHalfNs) << p << " members";
    EXPECT_NEAR(all_reduce_time(one_a_node(p), Algorithm::hierarchical, n), hockney, kHalfNs) << p << " members";
  }
}

/// q = p - 1 parts. The root sends the i-th to the i-th leader of the ring at (i - 1) t, t = alpha + n/q beta. The last
/// leader has its own after q t, and it is that part which comes last: around q - 1 edges that by then are free.
TEST(CollectiveTime, of_a_scatter_and_an_allgather_takes_the_parts_twice) {
  for (const int p : {3, 4, 9, 17}) {
    const int q = p - 1;
    const std::int64_t n = 1000 * q;
    EXPECT_NEAR(multicast_time(one_a_node(p), {Algorithm::scatter_allgather, 0}, n),
                (2 * q - 1) * (kAlpha + 1000 * kBeta), kHalfNs)
        << p << " members";
  }
}

/// A ring priced round by round is what its moves take if they are played: the same chunks as a multicast's list.
TEST(CollectiveTime, of_a_flat_all_to_all_takes_a_round_for_each_other_member) {
  for (const int p : {1, 2, 3, 16}) {
    const Seated made = one_a_node(p);
    EXPECT_NEAR(collective_time(CollectiveKind::all_to_all, made.group, {Algorithm::flat, 0}, 5000, made.cluster),
                (p - 1) * (kAlpha + 5000 * kBeta), kHalfNs)
        << p << " members; what they keep is no traffic";
  }
}

TEST(CollectiveTime, of_a_ring_is_that_of_its_moves) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Seated made = random_groups::seated(random, 12, 5);
    made.cluster.intra_node = {.latency_s = number(random, 0, 500) * 1e-9, .bandwidth_bytes_per_s = 1e9};
    made.cluster.inter_node = {.latency_s = number(random, 0, 500) * 1e-9, .bandwidth_bytes_per_s = 1e8};
    const auto members = std::ssize(made.group.members);
    const std::int64_t bytes = 4 * members + number(random, 0, 5000);
    for (const Algorithm algorithm : algorithms(CollectiveKind::all_reduce))
      EXPECT_DOUBLE_EQ(all_reduce_time(made, algorithm, bytes),
                       moves_time(all_reduce_moves(made.group, {algorithm, 0}, bytes, made.cluster),
                                  {made.cluster.intra_node, made.cluster.inter_node}, made.cluster))
          << "round " << round << ", " << to_string(algorithm) << ", " << bytes << " B, " << random_groups::shown(made);
  }
}

TEST(CollectiveTime, counts_links_inside_nodes_apart_from_the_nics) {
  Cluster cluster = uniform_cluster(2, 3, {.latency_s = 1, .bandwidth_bytes_per_s = 1e9}, {.latency_s = 10});
  const Group group{.root = 0, .members = {0, 1, 2, 3, 4, 5}};
  const auto time = [&](Algorithm algorithm) {
    return collective_time(CollectiveKind::multicast, group, {algorithm, 0}, 0, cluster);
  };
  EXPECT_DOUBLE_EQ(time(Algorithm::flat), 30);              // three through one NIC, beside two inside
  EXPECT_DOUBLE_EQ(time(Algorithm::hierarchical), 10 + 2);  // one, then two out of the leader's own link
  cluster.algorithm_costs = {
      {.algorithm = Algorithm::hierarchical, .intra_node = {.latency_s = 3}, .inter_node = {.latency_s = 7}}};
  EXPECT_DOUBLE_EQ(time(Algorithm::flat), 30);
  EXPECT_DOUBLE_EQ(time(Algorithm::hierarchical), 7 + 6);
}

TEST(CollectiveTime, counts_what_two_nodes_send_to_a_third_one_after_the_other) {
  const Cluster cluster = uniform_cluster(3, 1, {}, kLink);
  const std::vector<Move> moves{{.from = 1, .to = 0, .bytes = 5000},
                                {.from = 2, .to = 0, .target = 5000, .bytes = 5000}};
  EXPECT_NEAR(moves_time(moves, {cluster.intra_node, cluster.inter_node}, cluster), 2 * (kAlpha + 5000 * kBeta),
              kHalfNs);
}

TEST(CollectiveTime, of_one_message_is_the_links_whatever_was_measured_of_the_algorithm) {
  Seated made = one_a_node(2);
  made.cluster.algorithm_costs = {{.algorithm = Algorithm::chain, .intra_node = {}, .inter_node = {.latency_s = 1}}};
  EXPECT_NEAR(multicast_time(made, {Algorithm::chain, 0}, 5000), kAlpha + 5000 * kBeta, kHalfNs);
}

LinkClass any_link(std::mt19937& random) {
  return {.latency_s = std::pow(10.0, number(random, -6, -3)),
          .bandwidth_bytes_per_s = std::pow(10.0, number(random, 7, 10))};
}

Seated on_any_links(std::mt19937& random) {
  Seated made = random_groups::seated(random, 12, 5);
  made.cluster.intra_node = any_link(random);
  made.cluster.inter_node = any_link(random);
  return made;
}

TEST(ChooseRoute, finds_the_best_of_all_algorithms_and_segments) {
  std::mt19937 random(2);
  for (int round = 0; round < 150; ++round) {
    const Seated made = on_any_links(random);
    const auto bytes = static_cast<std::int64_t>(std::pow(10.0, number(random, 0, 8)));
    double best = std::numeric_limits<double>::infinity();
    for (const Algorithm algorithm : algorithms(CollectiveKind::multicast))
      for (std::int64_t segment : {0, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22,
                                   1 << 23, 1 << 24, 1 << 25})
        if (aware_of_nodes(algorithm) && segment <= bytes / 2 && (segment == 0 || bytes <= kMostSegments * segment))
          best = std::min(best, multicast_time(made, {algorithm, segment}, bytes));
    const RouteChoice choice = choose_route(CollectiveKind::multicast, made.group, bytes, made.cluster);
    const std::string place = text("round ", round, ", ", bytes, " B, ", random_groups::shown(made), ": ",
                                   to_string(choice.route.algorithm), " in ", choice.route.segment_bytes);
    EXPECT_TRUE(aware_of_nodes(choice.route.algorithm)) << place;
    EXPECT_TRUE(choice.route.segment_bytes == 0 || choice.route.segment_bytes >= kLeastSegment) << place;
    EXPECT_DOUBLE_EQ(choice.seconds, multicast_time(made, choice.route, bytes)) << place;
    EXPECT_LE(choice.seconds, best) << place;
  }
}

TEST(ChooseRoute, finds_the_best_all_reduce) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Seated made = on_any_links(random);
    const auto bytes = static_cast<std::int64_t>(std::pow(10.0, number(random, 0, 7)));
    const RouteChoice choice = choose_route(CollectiveKind::all_reduce, made.group, bytes, made.cluster);
    EXPECT_DOUBLE_EQ(choice.seconds, std::min(all_reduce_time(made, Algorithm::ring, bytes),
                                              all_reduce_time(made, Algorithm::hierarchical, bytes)))
        << "round " << round << ", " << random_groups::shown(made);
  }
}

TEST(ChooseRoute, cuts_as_finely_as_it_may_where_messages_cost_nothing) {
  const Cluster cluster = uniform_cluster(8, 1, {}, {0, kLink.bandwidth_bytes_per_s});
  const Group all{0, {0, 1, 2, 3, 4, 5, 6, 7}};
  const std::map<std::int64_t, std::int64_t> segments{
      {0, 0},
      {1, 0},
      {2 * kLeastSegment - 1, 0},
      {2 * kLeastSegment, kLeastSegment},
      {kMostSegments * kLeastSegment, kLeastSegment},
      {kMostSegments * kLeastSegment + 1, 2 * kLeastSegment},
      {std::int64_t{1} << 40, std::int64_t{1} << 34},
  };
  for (const auto& [bytes, segment] : segments)
    EXPECT_EQ(choose_route(CollectiveKind::multicast, all, bytes, cluster, Algorithm::chain).route.segment_bytes,
              segment)
        << bytes << " B";
}

/// Pipelined chain: s = sqrt(n alpha / ((p-2) beta)). The nearest power of two is off by sqrt(2) at most, which costs
/// (sqrt(2) + 1 / sqrt(2)) / 2 of what depends on it.
TEST(ChooseRoute, cuts_a_chain_into_about_the_segments_of_the_closed_form) {
  constexpr double kSlow = 100e-6;  // [s] of latency
  constexpr double kNearest = 1.0607;
  for (const int p : {4, 8, 16})
    for (const std::int64_t n : {250'000, 1'000'000}) {
      const double best =
          std::max<double>(kLeastSegment, std::sqrt(static_cast<double>(n) * kSlow / ((p - 2) * kBeta)));
      Seated made = one_a_node(p);
      made.cluster.inter_node.latency_s = kSlow;
      const RouteChoice choice = choose_route(CollectiveKind::multicast, made.group, n, made.cluster, Algorithm::chain);
      const double least_s = (p - 2 + static_cast<double>(n) / best) * (kSlow + best * kBeta);
      EXPECT_LE(choice.seconds, kNearest * least_s) << p << " members, " << n << " B";
      EXPECT_GT(choice.route.segment_bytes, 0);
    }
}

TEST(ChooseRoute, sends_one_message_to_one_other) {
  const Seated made = one_a_node(2);
  const RouteChoice choice = choose_route(CollectiveKind::multicast, made.group, 1 << 30, made.cluster);
  EXPECT_EQ(choice.route, (Route{Algorithm::hierarchical, 0}));
  EXPECT_NEAR(choice.seconds, kAlpha + (1 << 30) * kBeta, kHalfNs);
  EXPECT_EQ(choose_route(CollectiveKind::multicast, {.root = 1, .members = {1}}, 8, made.cluster).seconds, 0);
}

TEST(ChooseRoute, takes_the_simplest_where_links_are_free) {
  Seated made{uniform_cluster(4, 3, {}, {}), {.root = 5, .members = {}}};
  for (Rank rank = 0; rank < 12; ++rank) made.group.members.push_back(rank);
  const auto route = [&](CollectiveKind kind) { return choose_route(kind, made.group, 1 << 20, made.cluster).route; };
  EXPECT_EQ(route(CollectiveKind::multicast), (Route{Algorithm::hierarchical, 0}));
  EXPECT_EQ(route(CollectiveKind::all_reduce), (Route{Algorithm::ring, 0}));
}

TEST(ChooseRoute, does_as_asked) {
  const Seated made = one_a_node(5);
  for (const Algorithm algorithm : algorithms(CollectiveKind::multicast))
    EXPECT_EQ(choose_route(CollectiveKind::multicast, made.group, 1 << 20, made.cluster, algorithm).route.algorithm,
              algorithm);
  try {
    (void)choose_route(CollectiveKind::multicast, made.group, 8, made.cluster, Algorithm::ring);
    FAIL() << "a multicast has no ring";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    EXPECT_NE(std::string(error.what()).find("ring"), std::string::npos);
  }
}

TEST(RouteChooser, chooses_for_groups_that_sit_alike_what_choose_route_does) {
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    Seated made = on_any_links(random);
    for (const auto kind : {CollectiveKind::multicast, CollectiveKind::all_reduce})
      for (const Algorithm algorithm : algorithms(kind))
        made.cluster.algorithm_costs.push_back({kind, algorithm, any_link(random), any_link(random)});
    RouteChooser routes(made.cluster);
    for (int i = 0; i < 10; ++i) {
      const auto& everyone = made.cluster.ranks;
      Group group{.root = kNone, .members = {}};
      for (Rank rank = 0; rank < std::ssize(everyone); ++rank)
        if (number(random, 0, 1) == 0) group.members.push_back(rank);
      if (group.members.empty()) continue;
      group.root = group.members[at(number(random, 0, static_cast<int>(group.members.size()) - 1))];
      for (const auto kind : {CollectiveKind::multicast, CollectiveKind::all_reduce}) {
        const RouteChoice expected = choose_route(kind, group, 100'000, made.cluster);
        EXPECT_EQ(routes.choose(kind, group, 100'000).route, expected.route) << "round " << round;
        EXPECT_DOUBLE_EQ(routes.choose(kind, group, 100'000).seconds, expected.seconds) << "round " << round;
      }
    }
  }
}

TEST(ChooseRoutes, gives_each_transfer_its_route_and_its_time) {
  const Seated made = one_a_node(4);
  Plan plan;
  plan.cluster = made.cluster;
  plan.all_reduce = Algorithm::hierarchical;
  plan.groups = {made.group};
  plan.transfers = {{.payload = Payload::weights, .bytes = 1 << 20},
                    {.payload = Payload::weight_gradients, .bytes = 1 << 20}};
  choose_routes(plan);
  for (const Transfer& transfer : plan.transfers) {
    const CollectiveKind kind = collective_of(transfer.payload);
    const std::optional<Algorithm> asked = kind == CollectiveKind::all_reduce ? plan.all_reduce : plan.multicast;
    const RouteChoice expected = choose_route(kind, made.group, transfer.bytes, made.cluster, asked);
    EXPECT_EQ(transfer.route, expected.route) << to_string(kind);
    EXPECT_DOUBLE_EQ(transfer.predicted_s, expected.seconds) << to_string(kind);
  }
}

}  // namespace
}  // namespace sluice
