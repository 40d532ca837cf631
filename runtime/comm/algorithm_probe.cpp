#include "runtime/comm/algorithm_probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

#include "core/index.h"
#include "core/route_choice.h"
#include "core/statistics.h"
#include "core/text.h"
#include "runtime/comm/algorithm_fit.h"

namespace sluice {
namespace {

constexpr std::size_t kMostRanks = 64;
constexpr std::int64_t kSmallest = 1 << 10;  // of latency alone
constexpr std::int64_t kSizeRatio = 4, kHalfRatio = 2;
constexpr std::int64_t kLeastLargest = 256 << 10;  // of smaller ones rate limiters let much pass at once
constexpr int kFewestRounds = 3;
constexpr int kMostRounds = 5;
constexpr std::chrono::milliseconds kHeadStart{1};  // by then who waits naps between its polls, as in training
constexpr double kOverhead_s = 2e-3;  // of a measurement: the head start, what members tell each other, and waking up

constexpr CollectiveKind kKinds[] = {CollectiveKind::multicast, CollectiveKind::all_reduce, CollectiveKind::all_to_all};

enum Tag : int { kPayload, kReady, kGo, kDone };

struct Case {
  CollectiveKind kind = CollectiveKind::multicast;
  CollectiveSample sample;  ///< seconds: as the links predict it, until it was measured
};

/// All algorithms on one group with payloads of one size; they take turns.
using Block = std::vector<Case>;

/// Payloads go from `largest` down by the same ratio: all-to-alls share theirs out among the members.
Block block_of(const Group& group, std::int64_t bytes, bool multicasts_only, const Cluster& links) {
  Block block;
  for (const CollectiveKind kind : kKinds) {
    const bool multicast = kind == CollectiveKind::multicast;
    if (multicasts_only && !multicast) continue;
    if (multicast && group.members.size() <= 2) continue;  // one message, which is the link's
    const std::int64_t payload =
        kind == CollectiveKind::all_to_all ? std::max<std::int64_t>(1, bytes / std::ssize(group.members)) : bytes;
    for (const Algorithm algorithm : algorithms(kind)) {
      const RouteChoice choice = choose_route(kind, group, payload, links, algorithm);
      block.push_back({kind, {group, choice.route, payload, choice.seconds}});
    }
  }
  return block;
}

/// Of payloads that are measured, from the largest.
std::vector<std::int64_t> sizes_up_to(std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = largest; bytes >= std::min(largest, kSmallest); bytes /= kSizeRatio) sizes.push_back(bytes);
  return sizes;
}

std::vector<Block> blocks_up_to(std::int64_t largest, const Cluster& links) {
  std::vector<Block> blocks;
  std::vector<std::vector<Rank>> seen;  // another root makes a difference to multicasts alone
  for (const Group& group : probe_groups(links)) {
    const bool again = std::find(seen.begin(), seen.end(), group.members) != seen.end();
    seen.push_back(group.members);
    for (const std::int64_t bytes : sizes_up_to(largest)) blocks.push_back(block_of(group, bytes, again, links));
  }
  return blocks;
}

/// Time of one round of all blocks [s].
double predicted_seconds(const std::vector<Block>& blocks) {
  double seconds = 0;
  for (const Block& block : blocks)
    for (const Case& one : block) seconds += one.sample.seconds + kOverhead_s;
  return seconds;
}

/// Measures one block's collectives at one of the group's members.
class Stopwatch {
 public:
  Stopwatch(Communicator& communicator, const Block& block, const Cluster& links)
      : communicator_(communicator), group_(block.front().sample.group), links_(links) {
    std::int64_t most = 1;
    for (const Case& one : block) {
      const CollectiveSample& sample = one.sample;
      parts_.push_back(communicator.prepare(one.kind, group_, sample.route, sample.bytes, links));
      const bool shared_out = one.kind == CollectiveKind::all_to_all;
      most = std::max(most, shared_out ? sample.bytes * std::ssize(group_.members) : sample.bytes);
    }
    data_.resize(static_cast<std::size_t>(most));
    received_.resize(static_cast<std::size_t>(most));
    for (const Rank member : group_.members)
      if (member != group_.root && (at_root() || member == communicator.rank())) {
        to_root_.push_back(signal(pair_of(member, group_.root)));
        from_root_.push_back(signal(pair_of(group_.root, member)));
      }
  }

  [[nodiscard]] bool at_root() const { return communicator_.rank() == group_.root; }

  /// Time of one of the block's collectives [s], at the root.
  double measure(std::size_t which) {
    const bool multicast = parts_[which]->kind == CollectiveKind::multicast;
    if (!at_root()) return take_part(which, multicast), 0;
    finish(say(to_root_, kReady));
    std::vector<Operation> done = say(to_root_, kDone);
    const Clock::time_point begin = Clock::now() + kHeadStart;
    while (Clock::now() < begin) communicator_.progress();
    std::vector<Operation> go = multicast ? std::vector<Operation>{} : say(from_root_, kGo);
    Operation collective = start(which);
    communicator_.wait(collective);
    finish(std::move(go));
    finish(std::move(done));
    const std::chrono::duration<double> passed = Clock::now() - begin;
    return less_signals(passed.count(), multicast ? 1 : 2);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Part = std::shared_ptr<const CollectivePart>;

  void take_part(std::size_t which, bool multicast) {
    Operation collective = multicast ? start(which) : Operation{};
    finish(say(to_root_, kReady));
    if (!multicast) {
      finish(say(from_root_, kGo));
      collective = start(which);
    }
    communicator_.wait(collective);
    finish(say(to_root_, kDone));
  }

  Part signal(const Group& pair) {
    return communicator_.prepare(CollectiveKind::multicast, pair, {Algorithm::flat, 0}, 0, links_);
  }

  std::vector<Operation> say(const std::vector<Part>& signals, int tag) {
    std::vector<Operation> operations;
    for (const Part& part : signals) operations.push_back(communicator_.start(part, nullptr, tag, {}));
    return operations;
  }

  void finish(std::vector<Operation> operations) {
    for (Operation& operation : operations) communicator_.wait(operation);
  }

  Operation start(std::size_t which) {
    if (parts_[which]->kind == CollectiveKind::all_to_all)
      return communicator_.start_all_to_all(parts_[which], data_.data(), received_.data(), kPayload, {});
    return communicator_.start(parts_[which], data_.data(), kPayload, {});
  }

  /// At least as much is left as one message of the collective took.
  [[nodiscard]] double less_signals(double seconds, int signals) const {
    const bool crosses = std::any_of(group_.members.begin(), group_.members.end(), [&](Rank member) {
      return link_between(links_, group_.root, member) == LinkKind::inter_node;
    });
    const double latency = (crosses ? links_.inter_node : links_.intra_node).latency_s;
    return std::max(seconds - signals * latency, seconds / (signals + 1));
  }

  Communicator& communicator_;
  const Group group_;
  const Cluster& links_;
  std::vector<Part> parts_;
  std::vector<Part> to_root_, from_root_;  ///< this member's; at the root: all
  std::vector<std::byte> data_, received_;
};

/// Sets the times that this rank measures, 0 elsewhere.
void measure(Communicator& communicator, Block& block, int rounds, const Cluster& links) {
  std::vector<std::vector<double>> seconds(block.size());
  if (is_member(block.front().sample.group, communicator.rank())) {
    Stopwatch stopwatch(communicator, block, links);
    for (int round = -1; round < rounds; ++round)  // one for warming up
      for (std::size_t i = 0; i < block.size(); ++i) {
        const double measured = stopwatch.measure(i);
        if (round >= 0) seconds[i].push_back(measured);
      }
  }
  for (std::size_t i = 0; i < block.size(); ++i) block[i].sample.seconds = median(seconds[i]);
  communicator.barrier();
}

/// The times that one rank each has measured, at all ranks.
void share(Communicator& communicator, std::vector<Block>& blocks) {
  std::vector<double> seconds;
  for (const Block& block : blocks)
    for (const Case& one : block) seconds.push_back(one.sample.seconds);
  communicator.all_max(seconds);
  auto next = seconds.begin();
  for (Block& block : blocks)
    for (Case& one : block) one.sample.seconds = *next++;
}

/// A cost to fit, and what it is fitted to.
struct Fit {
  AlgorithmCost cost;
  std::vector<CollectiveSample> samples;
};

/// Of the algorithm's messages from `least` on and `below`, segments or not.
std::vector<CollectiveSample> samples_of(const AlgorithmCost& cost, const std::vector<Block>& blocks,
                                         std::int64_t least, std::int64_t below) {
  std::vector<CollectiveSample> samples;
  for (const Block& block : blocks)
    for (const auto& [kind, sample] : block) {
      const std::int64_t message = message_bytes(sample.route, sample.bytes);
      if (kind == cost.collective && sample.route.algorithm == cost.algorithm &&
          is_segmented(sample.route, sample.bytes) == cost.segmented && least <= message && message < below)
        samples.push_back(sample);
    }
  return samples;
}

/// Protocols change with the size of messages: a cost for each of the sizes, which descend.
std::vector<Fit> fits_by_size(AlgorithmCost cost, const std::vector<Block>& blocks,
                              const std::vector<std::int64_t>& sizes) {
  std::vector<Fit> fits;
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    const std::int64_t least = size == sizes.rbegin() ? 0 : *size / kHalfRatio;
    cost.from_bytes = fits.empty() ? 0 : least;
    if (Fit fit{cost, samples_of(cost, blocks, least, *size * kHalfRatio)}; !fit.samples.empty())
      fits.push_back(std::move(fit));
  }
  return fits;
}

std::vector<Fit> all_fits(const std::vector<Block>& blocks, std::int64_t largest) {
  std::vector<Fit> all;
  for (const CollectiveKind kind : kKinds)
    for (const Algorithm algorithm : algorithms(kind))
      for (const bool segmented : {false, true}) {
        std::vector<Fit> fits = fits_by_size({.collective = kind, .algorithm = algorithm, .segmented = segmented},
                                             blocks, sizes_up_to(largest));
        std::move(fits.begin(), fits.end(), std::back_inserter(all));
      }
  return all;
}

/// Each rank fits some; all know all.
std::vector<AlgorithmCost> fit_all(Communicator& communicator, const std::vector<Fit>& fits, const Cluster& links) {
  constexpr std::size_t kFigures = 5;
  std::vector<AlgorithmCost> costs;
  for (const Fit& fit : fits) costs.push_back(fit.cost);
  std::vector<double> figures(kFigures * costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (i % at(communicator.size()) != at(communicator.rank())) continue;
    const AlgorithmCost fitted = fit_algorithm(costs[i].collective, costs[i].algorithm, fits[i].samples, links);
    const double found[kFigures] = {fitted.intra_node.latency_s, fitted.intra_node.bandwidth_bytes_per_s,
                                    fitted.inter_node.latency_s, fitted.inter_node.bandwidth_bytes_per_s,
                                    fitted.median_error};
    std::copy(std::begin(found), std::end(found), figures.begin() + static_cast<std::ptrdiff_t>(kFigures * i));
  }
  communicator.all_max(figures);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const double* found = &figures[kFigures * i];
    costs[i].intra_node = {found[0], found[1]};
    costs[i].inter_node = {found[2], found[3]};
    costs[i].median_error = found[4];
  }
  return costs;
}

/// Of the times of one algorithm, or of all [%].
double median_error(const std::vector<Block>& blocks, const Cluster& cluster, const AlgorithmCost* of = nullptr) {
  std::vector<double> errors;
  for (const Block& block : blocks)
    for (const auto& [kind, sample] : block)
      if (of == nullptr || (kind == of->collective && sample.route.algorithm == of->algorithm))
        errors.push_back(
            std::abs(collective_time(kind, sample.group, sample.route, sample.bytes, cluster) / sample.seconds - 1));
  return 100 * median(std::move(errors));
}

/// By the figures of each algorithm, and by those of lone messages.
void log_errors(const std::function<void(const std::string&)>& log, const std::vector<Block>& blocks,
                const Cluster& links, const std::vector<AlgorithmCost>& costs) {
  Cluster cluster = links;
  cluster.algorithm_costs = costs;
  for (const AlgorithmCost& cost : costs)
    if (cost.from_bytes == 0 && !cost.segmented)
      log(text(to_string(cost.collective), " ", to_string(cost.algorithm),
               ": predicted against measured: median error ", median_error(blocks, cluster, &cost), " %"));
  log(text("all collectives: predicted against measured: median error ", median_error(blocks, cluster), " %, ",
           median_error(blocks, links), " % by the links' figures alone"));
}

void add_nodes(std::vector<Rank>& members, std::span<const std::vector<Rank>> nodes) {
  for (const std::vector<Rank>& node : nodes) members.insert(members.end(), node.begin(), node.end());
  std::sort(members.begin(), members.end());
}

}  // namespace

std::vector<Group> probe_groups(const Cluster& cluster) {
  std::vector<std::vector<Rank>> nodes = ranks_by_node(cluster);
  std::erase_if(nodes, [](const std::vector<Rank>& node) { return node.empty(); });
  std::size_t taken = 0, ranks = 0;
  while (taken < nodes.size() && (taken < 2 || ranks + nodes[taken].size() <= kMostRanks))
    ranks += nodes[taken++].size();
  nodes.resize(taken);

  Group all, leaders, two, one;
  add_nodes(all.members, nodes);
  for (const std::vector<Rank>& node : nodes) leaders.members.push_back(node.front());
  std::sort(leaders.members.begin(), leaders.members.end());
  add_nodes(two.members, std::span(nodes).first(std::min<std::size_t>(2, nodes.size())));
  one.members =
      *std::max_element(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });

  std::vector<Group> groups;
  for (Group group : {all, leaders, two, one}) {
    group.root = group.members.front();
    const bool known =
        std::any_of(groups.begin(), groups.end(), [&](const Group& g) { return g.members == group.members; });
    if (group.members.size() > 1 && !known) groups.push_back(group);
  }
  if (all.members.size() > 2) groups.insert(groups.begin() + 1, {all.members.back(), all.members});
  return groups;
}

std::vector<AlgorithmCost> probe_algorithms(Communicator& communicator, const Cluster& links,
                                            const AlgorithmProbeSettings& settings) {
  if (communicator.size() < 2) return {};
  const auto log = [&](const std::string& line) {
    if (settings.log) settings.log(line);
  };
  std::int64_t largest = settings.largest_bytes;
  std::vector<Block> blocks = blocks_up_to(largest, links);
  while (predicted_seconds(blocks) * (kFewestRounds + 1) > settings.seconds && largest > kLeastLargest)
    blocks = blocks_up_to(largest /= 2, links);
  const double round_s = predicted_seconds(blocks);
  const int rounds =
      static_cast<int>(std::clamp(settings.seconds / round_s - 1, double{kFewestRounds}, double{kMostRounds}));
  log(text("algorithms of collectives: payloads up to ", largest, " bytes, ", rounds, " times each, about ",
           (rounds + 1) * round_s, " s"));

  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const CollectiveSample first = blocks[i].front().sample;
    if (first.bytes == largest)
      log(text("group of ", first.group.members.size(), " ranks from rank ", first.group.root, " on"));
    measure(communicator, blocks[i], rounds, links);
  }
  share(communicator, blocks);
  std::vector<AlgorithmCost> costs = fit_all(communicator, all_fits(blocks, largest), links);
  if (settings.log) log_errors(settings.log, blocks, links, costs);
  return costs;
}

}  // namespace sluice
