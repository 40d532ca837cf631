#include "core/stage_pricing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "core/asynchronous.h"
#include "core/cost_model.h"
#include "core/index.h"
#include "core/schedule.h"
#include "core/worker_cost.h"

namespace sluice {
namespace {

/// Stages by the layers that lie in them; `backward` stands for both backward works.
struct StagesOfLayers {
  std::vector<const Stage*> forward, backward_input, backward_weight;
  std::vector<std::vector<const Stage*>> recompute;

  StagesOfLayers(const Model& model, const std::vector<Stage>& stages)
      : forward(model.layers.size()),
        backward_input(model.layers.size()),
        backward_weight(model.layers.size()),
        recompute(model.layers.size()) {
    for (const Stage& stage : stages)
      for (const LayerId layer : stage.layers) {
        const bool whole = stage.work == Work::backward;
        if (stage.work == Work::forward) forward[at(layer)] = &stage;
        if (stage.work == Work::backward_input || whole) backward_input[at(layer)] = &stage;
        if (stage.work == Work::backward_weight || whole) backward_weight[at(layer)] = &stage;
        if (stage.work == Work::recompute) recompute[at(layer)].push_back(&stage);
      }
  }
};

/// Of the micro-batches m < M, those with m mod period = residue.
double share_of(int residue, int period, int microbatches) {
  return static_cast<double>(microbatches_of(residue, period, microbatches)) / microbatches;
}

class Accounts {
 public:
  Accounts(const WorkerCost& cost, const std::vector<Stage>& stages)
      : cost_(cost),
        profile_(cost.profile()),
        cluster_(cost.cluster()),
        stages_(stages),
        pricing_(cost.pricing()),
        of_(profile_.model, stages),
        replicas_(replicas_by_position(stages)),
        placement_(schedule_named(pricing_.schedule).placement) {
    loads_.ranks.resize(cluster_.ranks.size());
    loads_.nodes.resize(cluster_.node_names.size());
  }

  Loads take() {
    for (const Stage& stage : stages_) count_compute(stage);
    count_tensors();
    for (LayerId layer = 0; layer < std::ssize(profile_.costs); ++layer) {
      count_weights(layer);
      count_all_reduce(layer);
    }
    count_memory();
    return std::move(loads_);
  }

 private:
  using Ranks = std::set<Rank>;
  using Stages = std::vector<const Stage*>;

  void count_compute(const Stage& stage) {
    double microbatch_s = 0, update_s = 0;
    for (const LayerId layer : stage.layers) {
      microbatch_s += work_time(profile_.costs[at(layer)], stage.work);
      if (updates_weights(stage.work)) update_s += profile_.costs[at(layer)].update_s;
    }
    const int replicas = static_cast<int>(stage.owners.size());
    for (int i = 0; i < replicas; ++i) {
      const Rank rank = stage.owners[at(i)];
      loads_.ranks[at(rank)].compute_s +=
          (share_of(i, replicas, pricing_.microbatches) * microbatch_s + update_s / microbatches_per_update(pricing_)) /
          cluster_.ranks[at(rank)].speed;
    }
  }

  void count_tensors() {
    const Model& model = profile_.model;
    const auto consumers = consumers_by_tensor(model);
    std::vector<Stages> backward_readers(model.tensors.size());
    for (LayerId layer = 0; layer < std::ssize(model.layers); ++layer) {
      for (const TensorId t : model.needs[at(layer)].backward_input)
        backward_readers[at(t)].push_back(of_.backward_input[at(layer)]);
      for (const TensorId t : model.needs[at(layer)].backward_weight)
        backward_readers[at(t)].push_back(of_.backward_weight[at(layer)]);
    }
    for (TensorId t = 0; t < std::ssize(model.tensors); ++t) {
      if (model.tensors[at(t)].producer == kDataset) {
        if (pricing_.data_reader != kNone) count_read(t, consumers[at(t)], backward_readers[at(t)]);
        continue;
      }
      count_activation(t, consumers[at(t)], backward_readers[at(t)]);
      if (has_gradient(model, t)) count_gradient(t, consumers[at(t)]);
    }
  }

  void count_activation(TensorId tensor, const std::vector<LayerId>& consumers, const Stages& backward_readers) {
    const Tensor& t = profile_.model.tensors[at(tensor)];
    const Stages makers{of_.forward[at(t.producer)]};
    const Stages& makers_again = of_.recompute[at(t.producer)];
    Stages readers, readers_again = backward_readers;
    for (const LayerId layer : consumers) {
      readers.push_back(of_.forward[at(layer)]);
      readers_again.insert(readers_again.end(), of_.recompute[at(layer)].begin(), of_.recompute[at(layer)].end());
    }
    for_each_residue({&makers, &makers_again, &readers, &readers_again}, [&](int m, double share) {
      Ranks takers = owners(readers, m);
      const Ranks has_it = owners(makers_again, m);
      for (const Rank rank : owners(readers_again, m))
        if (!has_it.contains(rank)) takers.insert(rank);
      exchange(owners(makers, m), takers, share * static_cast<double>(t.bytes));
    });
  }

  /// A tensor of the dataset, from the one rank that reads it.
  void count_read(TensorId tensor, const std::vector<LayerId>& consumers, Stages readers) {
    for (const LayerId layer : consumers) {
      readers.push_back(of_.forward[at(layer)]);
      readers.insert(readers.end(), of_.recompute[at(layer)].begin(), of_.recompute[at(layer)].end());
    }
    const auto bytes = static_cast<double>(profile_.model.tensors[at(tensor)].bytes);
    for_each_residue({&readers},
                     [&](int m, double share) { exchange({pricing_.data_reader}, owners(readers, m), share * bytes); });
  }

  void count_gradient(TensorId tensor, const std::vector<LayerId>& consumers) {
    const Tensor& t = profile_.model.tensors[at(tensor)];
    const Stages takers{of_.backward_input[at(t.producer)], of_.backward_weight[at(t.producer)]};
    Stages makers;
    for (const LayerId layer : consumers) makers.push_back(of_.backward_input[at(layer)]);
    for_each_residue({&makers, &takers}, [&](int m, double share) {
      exchange(owners(makers, m), owners(takers, m), share * static_cast<double>(t.bytes));
    });
  }

  void count_weights(LayerId layer) {
    const std::vector<Rank>& makers = of_.backward_weight[at(layer)]->owners;
    Stages users = of_.recompute[at(layer)];
    users.insert(users.end(), {of_.forward[at(layer)], of_.backward_input[at(layer)]});
    std::map<Rank, Ranks> served_by;
    for (const Stage* stage : users)
      for (const Rank user : users_of_weights(*stage))
        if (std::find(makers.begin(), makers.end(), user) == makers.end())
          served_by[weights_server(makers, user, cluster_)].insert(user);
    for (const auto& [maker, users_here] : served_by) exchange({maker}, users_here, per_step_bytes(layer));
  }

  /// Who fetches weights does so only for micro-batches that it has.
  [[nodiscard]] std::vector<Rank> users_of_weights(const Stage& stage) const {
    std::vector<Rank> users = stage.owners;
    if (stage.fetches_weights && std::ssize(users) > pricing_.microbatches) users.resize(at(pricing_.microbatches));
    return users;
  }

  void count_all_reduce(LayerId layer) {
    const std::vector<Rank>& owners = of_.backward_weight[at(layer)]->owners;
    const double bytes = ring_share(static_cast<int>(owners.size())) * per_step_bytes(layer);
    for (const Edge& edge : ring_edges({.root = owners.front(), .members = owners}, cluster_))
      exchange({edge.from}, {edge.to}, bytes);
  }

  /// What a bound of memory_use() says of each rank: WorkerCost's, of all that the rank does.
  void count_memory() {
    for (Rank rank = 0; rank < std::ssize(loads_.ranks); ++rank) {
      Stages own;
      std::map<int, Stages> by_position;
      for (const Stage& stage : stages_)
        if (owns(rank, stage)) {
          own.push_back(&stage);
          by_position[stage.index].push_back(&stage);
        }
      std::int64_t& bytes = loads_.ranks[at(rank)].memory_bytes;
      if (placement_ == Placement::line && !share_a_work(own))
        bytes = memory_of(own);
      else  // what these hand to each other waits here as if it came from elsewhere
        for (const auto& [position, stages] : by_position) bytes += memory_of(stages);
    }
  }

  /// Of one owner of the stages.
  [[nodiscard]] std::int64_t memory_of(const Stages& stages) const {
    if (stages.empty()) return 0;
    WorkerTally tally(cost_);
    int position = std::numeric_limits<int>::max(), owners = position;
    for (const Stage* stage : stages) {
      position = std::min(position, stage->index);
      owners = std::min(owners, static_cast<int>(stage->owners.size()));
      for (const LayerId layer : stage->layers) tally.add({layer, stage->work});
    }
    return cost_.memory_bytes(tally.load(), {owners, ranks_from(position), ranks_from(0)});
  }

  /// As many as make microbatches_in_flight() right; of placed pipelines safely as if all of the cluster took part.
  [[nodiscard]] int ranks_from(int position) const {
    const int following = std::accumulate(replicas_.lower_bound(position), replicas_.end(), 0,
                                          [](int sum, const auto& worker) { return sum + worker.second; });
    const int ranks = static_cast<int>(cluster_.ranks.size());
    switch (placement_) {
      case Placement::round_robin:
        return std::max(following, 2 * interleaved_group(pricing_.microbatches, ranks));
      case Placement::vee:
        return positions_of(placement_, ranks, 2) - position;
      case Placement::both_ways:
        return std::max(following, ranks);
      case Placement::line:
      case Placement::cooperative:
      case Placement::given:
        break;
    }
    return following;
  }

  static bool share_a_work(const Stages& stages) {
    std::set<Work> works;
    return std::any_of(stages.begin(), stages.end(),
                       [&](const Stage* stage) { return !works.insert(stage->work).second; });
  }

  /// Moves bytes from those that make (parts of) something to those that need it, over all borders between.
  void exchange(const Ranks& makers, const Ranks& takers, double bytes) {
    std::set<int> nodes;
    for (const Ranks* ranks : {&makers, &takers})
      for (const Rank rank : *ranks) nodes.insert(node_of(rank));
    for (const int node : nodes) {
      const auto [makers_here, makers_outside] = split(makers, node);
      const auto [takers_here, takers_outside] = split(takers, node);
      const bool enters = !takers_here.empty() && !makers_outside.empty();
      const bool leaves = !makers_here.empty() && !takers_outside.empty();
      if (enters) loads_.nodes[at(node)].received_bytes += bytes;
      if (leaves) loads_.nodes[at(node)].sent_bytes += bytes;
      exchange_inside(makers_here, takers_here, enters, bytes);
    }
  }

  /// Inside one node; what enters it comes to the lowest taker.
  void exchange_inside(const Ranks& makers, const Ranks& takers, bool enters, double bytes) {
    const auto others = [](const Ranks& ranks, Rank rank) { return ranks.size() > (ranks.contains(rank) ? 1u : 0u); };
    Ranks here = makers;
    here.insert(takers.begin(), takers.end());
    for (const Rank rank : here) {
      const bool is_taker = takers.contains(rank), is_lowest_taker = is_taker && rank == *takers.begin();
      if (is_taker && (others(makers, rank) || (enters && !is_lowest_taker)))
        loads_.ranks[at(rank)].received_bytes += bytes;
      if (others(takers, rank) && (makers.contains(rank) || (enters && is_lowest_taker)))
        loads_.ranks[at(rank)].sent_bytes += bytes;
    }
  }

  std::pair<Ranks, Ranks> split(const Ranks& ranks, int node) const {
    std::pair<Ranks, Ranks> here_and_outside;
    for (const Rank rank : ranks)
      (node_of(rank) == node ? here_and_outside.first : here_and_outside.second).insert(rank);
    return here_and_outside;
  }

  /// Visits the kinds of micro-batches that these stages' owners tell apart, and the share of each.
  template <typename Visit>
  void for_each_residue(std::initializer_list<const Stages*> lists, const Visit& visit) const {
    std::int64_t all = 1;
    for (const Stages* stages : lists)
      for (const Stage* stage : *stages)
        if (all < pricing_.microbatches) all = std::lcm(all, std::ssize(stage->owners));
    const int period = static_cast<int>(std::min<std::int64_t>(all, pricing_.microbatches));
    for (int m = 0; m < period; ++m) visit(m, share_of(m, period, pricing_.microbatches));
  }

  static Ranks owners(const Stages& stages, int microbatch) {
    Ranks ranks;
    for (const Stage* stage : stages) ranks.insert(owner(*stage, microbatch));
    return ranks;
  }

  [[nodiscard]] int node_of(Rank rank) const { return cluster_.ranks[at(rank)].node; }
  [[nodiscard]] double per_step_bytes(LayerId layer) const {
    return static_cast<double>(profile_.costs[at(layer)].parameter_bytes) / microbatches_per_update(pricing_);
  }

  const WorkerCost& cost_;
  const Profile& profile_;
  const Cluster& cluster_;
  const std::vector<Stage>& stages_;
  const Pricing& pricing_;
  const StagesOfLayers of_;
  const std::map<int, int> replicas_;
  const Placement placement_;
  Loads loads_;
};

}  // namespace

Loads loads_of(const Profile& profile, const Cluster& cluster, const std::vector<Stage>& stages,
               const Pricing& pricing) {
  return loads_of(WorkerCost(profile, cluster, pricing), stages);
}

Loads loads_of(const WorkerCost& cost, const std::vector<Stage>& stages) { return Accounts(cost, stages).take(); }

Bottleneck bottleneck(const Cluster& cluster, const Loads& loads, const Pricing& pricing) {
  Bottleneck busiest;
  const auto consider = [&](double seconds, Resource resource, int where) {
    if (seconds > busiest.seconds) busiest = {seconds, resource, where};
  };
  const auto link_s = [&](const auto& load, const LinkClass& link) {
    return pricing.compute_only ? 0 : std::max(load.received_bytes, load.sent_bytes) / link.bandwidth_bytes_per_s;
  };
  for (Rank rank = 0; rank < std::ssize(loads.ranks); ++rank) {
    const RankLoad& load = loads.ranks[at(rank)];
    consider(load.compute_s, Resource::compute, rank);
    consider(link_s(load, cluster.intra_node), Resource::rank_link, rank);
    if (load.memory_bytes > cluster.ranks[at(rank)].memory_bytes) consider(kInfinity, Resource::memory, rank);
  }
  for (int node = 0; node < std::ssize(loads.nodes); ++node)
    consider(link_s(loads.nodes[at(node)], cluster.inter_node), Resource::nic, node);
  return busiest;
}

std::map<int, int> replicas_by_position(const std::vector<Stage>& stages) {
  std::map<int, int> replicas;
  for (const Stage& stage : stages) {
    int& most = replicas[stage.index];
    most = std::max(most, static_cast<int>(stage.owners.size()));
  }
  return replicas;
}

int microbatches_in_flight(const Pricing& pricing, int ranks_from_here) {
  if (pricing.schedule == "sequential") return 1;
  if (asynchronous(pricing.schedule)) return ranks_from_here;
  // Of a user's own schedule nothing is known but that.
  const bool all =
      pricing.schedule == "gpipe" || pricing.schedule == "cooperative" || pricing.schedule == kFileSchedule;
  return all ? pricing.microbatches : std::min(pricing.microbatches, ranks_from_here);
}

int microbatches_per_update(const Pricing& pricing) {
  return pricing.schedule == "pipedream" ? 1 : pricing.microbatches;
}

int versions_of_weights(const Pricing& pricing, int ranks_from_here) {
  if (pricing.schedule == "pipedream") return ranks_from_here;
  return pricing.schedule == "pipedream-2bw" ? 2 : 1;
}

}  // namespace sluice
