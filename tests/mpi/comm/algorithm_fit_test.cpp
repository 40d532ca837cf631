#include "runtime/comm/algorithm_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/route_choice.h"
#include "core/text.h"

namespace sluice {
namespace {

const LinkClass kIntra{2e-6, 5e9};
const LinkClass kInter{40e-6, 115e6};

// Three ranks on a node: a message that is all there is takes the link's figures, and tells nothing of an algorithm.
Cluster four_nodes_of_three() { return uniform_cluster(4, 3, kIntra, kInter); }

std::vector<Group> groups() {
  const Group everyone{0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  return {everyone, {4, everyone.members}, {0, {0, 3, 6, 9}}, {3, {0, 1, 3, 4}}, {0, {0, 1, 2}}};
}

/// What a cluster measures whose messages in this algorithm cost `known`.
std::vector<CollectiveSample> samples_of(const AlgorithmCost& known, double noise = 0, unsigned seed = 0) {
  Cluster cluster = four_nodes_of_three();
  cluster.algorithm_costs = {known};
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  std::vector<CollectiveSample> samples;
  for (const Group& group : groups())
    for (const std::int64_t bytes : {1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22}) {
      const Route route = choose_route(known.collective, group, bytes, cluster, known.algorithm).route;
      const double seconds = collective_time(known.collective, group, route, bytes, cluster);
      samples.push_back({group, route, bytes, seconds * factor(random)});
    }
  return samples;
}

/// The largest of the four figures' relative errors.
double largest_error(const AlgorithmCost& fitted, const AlgorithmCost& known) {
  const auto error = [](double is, double expected) { return std::abs(is / expected - 1); };
  return std::max({error(fitted.intra_node.latency_s, known.intra_node.latency_s),
                   error(fitted.intra_node.bandwidth_bytes_per_s, known.intra_node.bandwidth_bytes_per_s),
                   error(fitted.inter_node.latency_s, known.inter_node.latency_s),
                   error(fitted.inter_node.bandwidth_bytes_per_s, known.inter_node.bandwidth_bytes_per_s)});
}

std::vector<AlgorithmCost> known_costs() {
  std::vector<AlgorithmCost> costs;
  for (const CollectiveKind kind : {CollectiveKind::multicast, CollectiveKind::all_reduce})
    for (const Algorithm algorithm : algorithms(kind))
      costs.push_back(
          {.collective = kind, .algorithm = algorithm, .intra_node = {5e-6, 2e9}, .inter_node = {90e-6, 8e7}});
  return costs;
}

TEST(AlgorithmFit, finds_the_figures_of_exact_times_within_1_percent) {
  for (const AlgorithmCost& known : known_costs()) {
    SCOPED_TRACE(to_string(known.algorithm));
    const AlgorithmCost fitted =
        fit_algorithm(known.collective, known.algorithm, samples_of(known), four_nodes_of_three());
    EXPECT_EQ(fitted.algorithm, known.algorithm);
    EXPECT_EQ(fitted.collective, known.collective);
    EXPECT_LT(largest_error(fitted, known), 0.01);
    EXPECT_LT(fitted.median_error, 0.01);
  }
}

TEST(AlgorithmFit, tells_noisy_times_within_their_noise) {
  for (const AlgorithmCost& known : known_costs())
    for (unsigned seed = 0; seed < 5; ++seed) {
      SCOPED_TRACE(testing::Message() << to_string(known.algorithm) << ", seed " << seed);
      const AlgorithmCost fitted =
          fit_algorithm(known.collective, known.algorithm, samples_of(known, 0.05, seed), four_nodes_of_three());
      EXPECT_LT(largest_error(fitted, known), 0.08);
      EXPECT_LT(fitted.median_error, 0.05);
    }
}

TEST(AlgorithmFit, is_not_moved_by_a_wild_sample) {
  const AlgorithmCost known = known_costs().front();
  for (const double factor : {0.01, 50.0}) {
    std::vector<CollectiveSample> samples = samples_of(known);
    samples[4].seconds *= factor;
    const AlgorithmCost fitted = fit_algorithm(known.collective, known.algorithm, samples, four_nodes_of_three());
    EXPECT_LT(largest_error(fitted, known), 0.02) << factor;
  }
}

// As where a rate limiter lets small payloads pass for nothing.
TEST(AlgorithmFit, keeps_latencies_that_make_segments_worth_their_number) {
  const AlgorithmCost known{.algorithm = Algorithm::tree, .intra_node = {0, 2e9}, .inter_node = {0, 8e7}};
  const AlgorithmCost fitted =
      fit_algorithm(known.collective, known.algorithm, samples_of(known), four_nodes_of_three());
  EXPECT_GE(fitted.intra_node.latency_s, kIntra.latency_s / 2);
  EXPECT_GE(fitted.inter_node.latency_s, kInter.latency_s / 2);
}

TEST(AlgorithmFit, keeps_to_the_links_bandwidths_where_segments_may_follow_each_other) {
  const AlgorithmCost known{.algorithm = Algorithm::chain, .intra_node = {9e-6, 1e12}, .inter_node = {90e-6, 1e12}};
  std::vector<CollectiveSample> samples = samples_of(known);
  const AlgorithmCost fitted = fit_algorithm(known.collective, known.algorithm, samples, four_nodes_of_three());
  EXPECT_LE(fitted.intra_node.bandwidth_bytes_per_s, kIntra.bandwidth_bytes_per_s * (1 + 1e-9));
  EXPECT_LE(fitted.inter_node.bandwidth_bytes_per_s, kInter.bandwidth_bytes_per_s * (1 + 1e-9));
  std::erase_if(samples, [](const CollectiveSample& sample) { return sample.bytes >= kLeastSegment; });
  EXPECT_GT(
      fit_algorithm(known.collective, known.algorithm, samples, four_nodes_of_three()).inter_node.bandwidth_bytes_per_s,
      10 * kInter.bandwidth_bytes_per_s);
}

/// The probe fits each size on its own. Larger payloads must not be told by latencies that a small one left open.
TEST(AlgorithmFit, tells_large_payloads_from_messages_of_one_size) {
  for (AlgorithmCost known : known_costs()) {
    SCOPED_TRACE(text(to_string(known.collective), " ", to_string(known.algorithm)));
    known.intra_node = {2 * kIntra.latency_s, kIntra.bandwidth_bytes_per_s / 2};
    known.inter_node = {2 * kInter.latency_s, kInter.bandwidth_bytes_per_s / 2};
    Cluster cluster = four_nodes_of_three();
    cluster.algorithm_costs = {known};
    const auto seconds = [&](const Group& group, std::int64_t bytes) {
      return collective_time(known.collective, group, {known.algorithm, 0}, bytes, cluster);
    };
    std::vector<CollectiveSample> samples;
    for (const Group& group : groups())
      samples.push_back({group, {known.algorithm, 0}, 1 << 18, seconds(group, 1 << 18)});
    for (const Group& group : groups()) {
      const double measured = seconds(group, 1 << 24);
      Cluster fitted = four_nodes_of_three();
      fitted.algorithm_costs = {fit_algorithm(known.collective, known.algorithm, samples, cluster)};
      EXPECT_NEAR(collective_time(known.collective, group, {known.algorithm, 0}, 1 << 24, fitted) / measured, 1, 0.05);
    }
  }
}

TEST(AlgorithmFit, keeps_the_links_figures_of_a_class_that_no_sample_depends_on) {
  const AlgorithmCost known{.algorithm = Algorithm::chain, .intra_node = {9e-6, 1e9}, .inter_node = {90e-6, 8e7}};
  std::vector<CollectiveSample> samples = samples_of(known);
  std::erase_if(samples, [](const CollectiveSample& sample) {
    return sample.group.members.size() != 4 || sample.group.members[1] == 1;
  });
  const AlgorithmCost fitted = fit_algorithm(known.collective, known.algorithm, samples, four_nodes_of_three());
  EXPECT_EQ(fitted.intra_node.latency_s, kIntra.latency_s);
  EXPECT_NEAR(fitted.intra_node.bandwidth_bytes_per_s / kIntra.bandwidth_bytes_per_s, 1, 1e-12);
  EXPECT_NEAR(fitted.inter_node.latency_s / known.inter_node.latency_s, 1, 0.01);
}

TEST(AlgorithmFit, refuses_samples_that_cannot_be) {
  const Cluster cluster = four_nodes_of_three();
  const auto fit = [&](const std::vector<CollectiveSample>& samples) {
    return fit_algorithm(CollectiveKind::multicast, Algorithm::tree, samples, cluster);
  };
  EXPECT_THROW((void)fit({}), Error);
  EXPECT_THROW((void)fit({{groups()[0], {Algorithm::tree, 0}, 1024, 0}}), Error);
  EXPECT_THROW((void)fit({{groups()[0], {Algorithm::tree, 0}, 1024, std::nan("")}}), Error);
  EXPECT_THROW((void)fit({{groups()[0], {Algorithm::chain, 0}, 1024, 1e-3}}), Error);
}

}  // namespace
}  // namespace sluice
