#include "runtime/comm/probe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>

#include "core/statistics.h"
#include "core/text.h"
#include "runtime/comm/algorithm_probe.h"
#include "runtime/comm/link_fit.h"

namespace sluice {
namespace {

constexpr std::int64_t kSmallest = 8;
constexpr std::int64_t kBytesPerSize = 16 << 20;  // bounds the time of slow links
constexpr std::int64_t kFewestRounds = 5;
constexpr std::int64_t kMostRounds = 100;
constexpr int kWarmups = 3;

std::vector<std::int64_t> message_sizes(std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = kSmallest; bytes < largest; bytes *= 4) sizes.push_back(bytes);
  sizes.push_back(largest);
  return sizes;
}

using Part = std::shared_ptr<const CollectivePart>;

/// One message from one rank to another.
Part message_along(Communicator& communicator, Edge edge, std::int64_t bytes, const Cluster& cluster) {
  return communicator.prepare(CollectiveKind::multicast, pair_of(edge.from, edge.to), {.algorithm = Algorithm::flat},
                              bytes, cluster);
}

void send(Communicator& communicator, const Part& message, std::vector<std::byte>& data) {
  Operation operation = communicator.start(message, data.data(), 0, {});
  communicator.wait(operation);
}

/// Median time of one message of `bytes` between the pair's ranks, measured at both.
double message_seconds(Communicator& communicator, Edge pair, std::vector<std::byte>& data, std::int64_t bytes,
                       const Cluster& cluster) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t rounds = std::clamp(kBytesPerSize / bytes, kFewestRounds, kMostRounds);
  const Part there = message_along(communicator, pair, bytes, cluster);
  const Part back = message_along(communicator, {pair.to, pair.from}, bytes, cluster);
  std::vector<double> seconds;
  for (std::int64_t round = -kWarmups; round < rounds; ++round) {
    const Clock::time_point begin = Clock::now();
    send(communicator, there, data);
    send(communicator, back, data);
    if (round >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / 2);
  }
  return median(std::move(seconds));
}

/// Seconds by pair and size, pair after pair, at all ranks.
std::vector<double> measure(Communicator& communicator, std::span<const Edge> pairs,
                            std::span<const std::int64_t> sizes, const Cluster& cluster) {
  std::vector<std::byte> data(static_cast<std::size_t>(sizes.back()));
  std::vector<double> seconds;
  for (const Edge& pair : pairs) {
    const bool mine = communicator.rank() == pair.from || communicator.rank() == pair.to;
    for (const std::int64_t bytes : sizes)
      seconds.push_back(mine ? message_seconds(communicator, pair, data, bytes, cluster) : 0);
    communicator.barrier();
  }
  communicator.all_max(seconds);
  return seconds;
}

/// Samples by link class.
std::array<std::vector<LinkSample>, 2> measure_links(Communicator& communicator, const Cluster& cluster,
                                                     const ProbeSettings& settings) {
  const std::vector<Edge> pairs = probe_pairs(communicator.node_of_rank(), settings.most_pairs);
  const std::vector<std::int64_t> sizes = message_sizes(settings.largest_bytes);
  const std::vector<double> seconds = measure(communicator, pairs, sizes, cluster);
  std::array<std::vector<LinkSample>, 2> samples;
  for (std::size_t pair = 0; pair < pairs.size(); ++pair)
    for (std::size_t size = 0; size < sizes.size(); ++size)
      samples[static_cast<std::size_t>(link_between(cluster, pairs[pair].from, pairs[pair].to))].push_back(
          {sizes[size], seconds[pair * sizes.size() + size]});
  return samples;
}

std::optional<LinkClass> fit(const char* name, const std::vector<LinkSample>& samples, const ProbeSettings& settings) {
  if (samples.empty()) return std::nullopt;
  const LinkFit result = fit_link(samples);
  if (settings.log)
    settings.log(text(name, " link: latency ", result.link.latency_s * 1e6, " us, bandwidth ",
                      result.link.bandwidth_bytes_per_s * 1e-9, " GB/s; fit error median ", result.median_error * 100,
                      " %, largest ", result.largest_error * 100, " %"));
  return result.link;
}

std::vector<RankSpec> describe_ranks(Communicator& communicator) {
  const std::vector<int>& nodes = communicator.node_of_rank();
  const double physical = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const std::vector<double> memory = communicator.all_gather(std::array{physical});
  std::vector<RankSpec> ranks;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto sharing = static_cast<double>(std::count(nodes.begin(), nodes.end(), nodes[rank]));
    ranks.push_back({.node = nodes[rank], .memory_bytes = static_cast<std::int64_t>(memory[rank] / sharing)});
  }
  return ranks;
}

/// A copy whose byte counts are its own.
Communicator same_order(const Communicator& communicator) {
  std::vector<Rank> order(static_cast<std::size_t>(communicator.size()));
  std::iota(order.begin(), order.end(), 0);
  return communicator.permuted(order);
}

}  // namespace

std::vector<Edge> probe_pairs(std::span<const int> node_of_rank, int most_pairs) {
  std::vector<std::vector<Rank>> nodes;
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto node = static_cast<std::size_t>(node_of_rank[rank]);
    nodes.resize(std::max(nodes.size(), node + 1));
    nodes[node].push_back(static_cast<Rank>(rank));
  }
  std::vector<Edge> intra;
  std::vector<Edge> inter;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].size() > 1 && std::ssize(intra) < most_pairs) intra.push_back({nodes[node][0], nodes[node][1]});
    if (node > 0 && std::ssize(inter) < most_pairs) inter.push_back({nodes[node - 1][0], nodes[node][0]});
  }
  intra.insert(intra.end(), inter.begin(), inter.end());
  return intra;
}

Cluster probe(const Communicator& communicator, const ProbeSettings& settings) {
  Communicator own = same_order(communicator);
  ProbeSettings quiet_elsewhere = settings;
  if (own.rank() != 0) quiet_elsewhere.log = nullptr;
  const auto log = [&](const char* line) {
    if (quiet_elsewhere.log) quiet_elsewhere.log(line);
  };
  Cluster cluster{.ranks = describe_ranks(own), .node_names = own.node_names(), .intra_node = {}, .inter_node = {}};
  const auto samples = measure_links(own, cluster, settings);
  const auto intra = fit("intra-node", samples[static_cast<std::size_t>(LinkKind::intra_node)], quiet_elsewhere);
  const auto inter = fit("inter-node", samples[static_cast<std::size_t>(LinkKind::inter_node)], quiet_elsewhere);
  if (!intra && !inter) log("one rank alone: no link to measure, links cost nothing");
  if (intra && !inter) log("one node: no inter-node link to measure, it takes the intra-node figures");
  if (inter && !intra) log("one rank on each node: no intra-node link to measure, it takes the inter-node figures");
  cluster.intra_node = intra.value_or(inter.value_or(LinkClass{}));
  cluster.inter_node = inter.value_or(cluster.intra_node);
  cluster.algorithm_costs = probe_algorithms(
      own, cluster,
      {.largest_bytes = settings.largest_payload, .seconds = settings.algorithm_seconds, .log = quiet_elsewhere.log});
  return cluster;
}

}  // namespace sluice
