#include "optimizer/solver/ilp/loads.h"

#include <algorithm>
#include <functional>

namespace sluice {
namespace {

/// Something that those who make (parts of) it send to those who need it.
struct Exchange {
  double bytes = 0;           ///< mean per micro-batch
  std::vector<Place> makers;  ///< each at one rank
  std::vector<Place> takers;  ///< each at one rank or at none
};

Terms at_ranks(const Place& place, const std::function<bool(Rank)>& is_meant) {
  Terms terms;
  for (Rank rank = 0; rank < std::ssize(place); ++rank)
    if (is_meant(rank)) terms.push_back({place[at(rank)]});
  return terms;
}

Terms at_rank(const Place& place, Rank rank) { return {{place[at(rank)]}}; }

class LoadRows {
 public:
  LoadRows(Mip& mip, const WorkColumns& works, const Problem& problem, int time, double unit_s, bool passing_on)
      : mip_(mip),
        works_(works),
        problem_(problem),
        unit_s_(unit_s),
        passing_on_(passing_on && problem.cluster.node_names.size() > 1) {
    const std::size_t ranks = problem.cluster.ranks.size(), nodes = problem.cluster.node_names.size();
    busy_.assign(3 * ranks + 2 * nodes, Terms{{time, -1}});
  }

  void run() {
    count_compute();
    if (!problem_.pricing.compute_only) count_exchanges();
    for (Terms& busy : busy_)
      if (busy.size() > 1) mip_.at_most(0, std::move(busy));
  }

 private:
  Terms& compute(Rank rank) { return busy_[at(rank)]; }
  Terms& received(Rank rank) { return busy_[at(works_.ranks() + rank)]; }
  Terms& sent(Rank rank) { return busy_[at(2 * works_.ranks() + rank)]; }
  Terms& nic_received(int node) { return busy_[at(3 * works_.ranks() + 2 * node)]; }
  Terms& nic_sent(int node) { return busy_[at(3 * works_.ranks() + 2 * node + 1)]; }

  void count_compute() {
    for (LayerId layer = 0; layer < works_.layers(); ++layer) {
      const LayerCost& cost = problem_.profile.costs[at(layer)];
      add_work(works_.place(Work::forward, layer), cost.forward_s);
      add_work(works_.place(Work::backward_input, layer), cost.backward_input_s);
      add_work(works_.place(Work::backward_weight, layer),
               cost.backward_weight_s + cost.update_s / microbatches_per_update(problem_.pricing));
      add_work(works_.recompute(layer), cost.forward_s);
    }
  }

  void add_work(const Place& place, double seconds) {
    for (Rank rank = 0; rank < std::ssize(place) && seconds > 0; ++rank)
      compute(rank).push_back({place[at(rank)], seconds / problem_.cluster.ranks[at(rank)].speed / unit_s_});
  }

  void count_exchanges() {
    const Model& model = problem_.profile.model;
    const auto consumers = consumers_by_tensor(model);
    for (TensorId tensor = 0; tensor < std::ssize(model.tensors); ++tensor) {
      if (model.tensors[at(tensor)].producer == kDataset) continue;
      add(activation(tensor, consumers[at(tensor)]));
      if (has_gradient(model, tensor)) add(gradient(tensor, consumers[at(tensor)]));
    }
    for (LayerId layer = 0; layer < works_.layers(); ++layer) add(weights(layer));
  }

  Exchange activation(TensorId tensor, const std::vector<LayerId>& consumers) {
    const Tensor& t = problem_.profile.model.tensors[at(tensor)];
    std::vector<Place> early, late;  // late: not needed where a recompute makes it again
    for (const LayerId layer : consumers) {
      early.push_back(works_.place(Work::forward, layer));
      if (!works_.recompute(layer).empty()) late.push_back(works_.recompute(layer));
    }
    for (LayerId layer = 0; layer < works_.layers(); ++layer) {
      const LayerNeeds& needs = problem_.profile.model.needs[at(layer)];
      const auto reads = [&](const auto& tensors) {
        return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
      };
      if (reads(needs.backward_input)) late.push_back(works_.place(Work::backward_input, layer));
      if (reads(needs.backward_weight)) late.push_back(works_.place(Work::backward_weight, layer));
    }
    Exchange exchange{static_cast<double>(t.bytes), {works_.place(Work::forward, t.producer)}, std::move(early)};
    keep_distinct(late);
    for (const Place& reader : late) exchange.takers.push_back(unless_made_again(reader, t.producer));
    return exchange;
  }

  Exchange gradient(TensorId tensor, const std::vector<LayerId>& consumers) const {
    const Tensor& t = problem_.profile.model.tensors[at(tensor)];
    Exchange exchange{static_cast<double>(t.bytes), {}, {}};
    for (const Work work : {Work::backward_input, Work::backward_weight})
      exchange.takers.push_back(works_.place(work, t.producer));
    for (const LayerId layer : consumers) exchange.makers.push_back(works_.place(Work::backward_input, layer));
    return exchange;
  }

  Exchange weights(LayerId layer) const {
    const auto bytes = static_cast<double>(problem_.profile.costs[at(layer)].parameter_bytes);
    return {bytes / microbatches_per_update(problem_.pricing),
            {works_.place(Work::backward_weight, layer)},
            {works_.place(Work::forward, layer), works_.place(Work::backward_input, layer)}};
  }

  Place unless_made_again(const Place& reader, LayerId producer) {
    const Place& again = works_.recompute(producer);
    if (again.empty()) return reader;
    Place place;
    for (Rank rank = 0; rank < std::ssize(reader); ++rank) {
      const int column = mip_.add({});
      place.push_back(column);
      mip_.one_where(column, {at_rank(reader, rank)}, {at_rank(again, rank)});
      mip_.at_most(0, {{column, 1}, {reader[at(rank)], -1}});
      mip_.at_most(1, {{column, 1}, {again[at(rank)], 1}});
    }
    return place;
  }

  static void keep_distinct(std::vector<Place>& places) {
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
  }

  void add(Exchange exchange) {
    keep_distinct(exchange.makers);
    keep_distinct(exchange.takers);
    const bool stays = exchange.makers.size() == 1 && exchange.takers == exchange.makers;
    if (exchange.bytes == 0 || stays) return;
    const Cluster& cluster = problem_.cluster;
    const double nic_s = exchange.bytes / cluster.inter_node.bandwidth_bytes_per_s;
    const double link_s = exchange.bytes / cluster.intra_node.bandwidth_bytes_per_s;
    for (int node = 0; node < std::ssize(cluster.node_names); ++node) {
      if (cluster.node_names.size() > 1 && nic_s > 0) cross_nic(exchange, node, nic_s / unit_s_);
      if (link_s > 0 && rank_links_may_bind(problem_)) cross_links(exchange, node, link_s / unit_s_);
    }
  }

  /// A column that is 1 where bytes cross a border, whose busy time is counted in `busy`.
  int crossing(Terms& busy, double units) {
    const int column = mip_.add({});
    busy.push_back({column, units});
    return column;
  }

  template <typename Visit>
  static void for_each_pair(const Exchange& exchange, const Visit& visit) {
    for (const Place& maker : exchange.makers)
      for (const Place& taker : exchange.takers)
        if (maker != taker) visit(maker, taker);
  }

  [[nodiscard]] bool is_on(Rank rank, int node) const { return problem_.cluster.ranks[at(rank)].node == node; }

  void cross_nic(const Exchange& exchange, int node, double units) {
    const int enters = crossing(nic_received(node), units), leaves = crossing(nic_sent(node), units);
    const auto inside = [&](Rank rank) { return is_on(rank, node); };
    const auto outside = [&](Rank rank) { return !is_on(rank, node); };
    for_each_pair(exchange, [&](const Place& maker, const Place& taker) {
      mip_.one_where(enters, {at_ranks(maker, outside), at_ranks(taker, inside)});
      mip_.one_where(leaves, {at_ranks(maker, inside), at_ranks(taker, outside)});
    });
  }

  void cross_links(const Exchange& exchange, int node, double units) {
    Place receives(at(works_.ranks()), kNone), sends = receives;
    for (Rank rank = 0; rank < works_.ranks(); ++rank) {
      if (!is_on(rank, node)) continue;
      receives[at(rank)] = crossing(received(rank), units);
      sends[at(rank)] = crossing(sent(rank), units);
      const auto beside = [&](Rank other) { return is_on(other, node) && other != rank; };
      for_each_pair(exchange, [&](const Place& maker, const Place& taker) {
        mip_.one_where(receives[at(rank)], {at_ranks(maker, beside), at_rank(taker, rank)});
        mip_.one_where(sends[at(rank)], {at_rank(maker, rank), at_ranks(taker, beside)});
      });
    }
    if (passing_on_ && exchange.takers.size() > 1) pass_on(exchange, node, receives, sends);
  }

  /// What enters a node comes to the lowest rank that needs it, which sends it on to the others.
  void pass_on(const Exchange& exchange, int node, const Place& receives, const Place& sends) {
    const Place needs = anywhere(exchange.takers, node);
    for (Rank low = 0; low < works_.ranks(); ++low)
      for (Rank high = low + 1; high < works_.ranks(); ++high) {
        if (!is_on(low, node) || !is_on(high, node)) continue;
        const Terms lower = at_ranks(needs, [&](Rank rank) { return is_on(rank, node) && rank < low; });
        for (const Place& maker : exchange.makers) {
          const Terms outside = at_ranks(maker, [&](Rank rank) { return !is_on(rank, node); });
          mip_.one_where(receives[at(high)], {at_rank(needs, low), at_rank(needs, high), outside});
          mip_.one_where(sends[at(low)], {at_rank(needs, low), at_rank(needs, high), outside}, {lower});
        }
      }
  }

  /// By rank of the node: 1 where one of the places is, 0 where none is.
  Place anywhere(const std::vector<Place>& places, int node) {
    Place any(at(works_.ranks()), kNone);
    for (Rank rank = 0; rank < works_.ranks(); ++rank) {
      if (!is_on(rank, node)) continue;
      any[at(rank)] = mip_.add({});
      Terms at_most_all{{any[at(rank)], -1}};
      for (const Place& place : places) {
        mip_.one_where(any[at(rank)], {at_rank(place, rank)});
        at_most_all.push_back({place[at(rank)], 1});
      }
      mip_.at_least(0, std::move(at_most_all));
    }
    return any;
  }

  Mip& mip_;
  const WorkColumns& works_;
  const Problem& problem_;
  const double unit_s_;
  const bool passing_on_;
  std::vector<Terms> busy_;  ///< of every resource
};

}  // namespace

void load_ranks_and_links(Mip& mip, const WorkColumns& works, const Problem& problem, int time, double unit_s,
                          bool passing_on) {
  LoadRows(mip, works, problem, time, unit_s, passing_on).run();
}

bool rank_links_may_bind(const Problem& problem) {
  if (problem.pricing.compute_only) return false;
  double bytes = 0, compute_s = 0, speed = 0;
  for (TensorId tensor = 0; tensor < std::ssize(problem.profile.model.tensors); ++tensor) {
    const Tensor& t = problem.profile.model.tensors[at(tensor)];
    if (t.producer == kDataset) continue;
    bytes += static_cast<double>(t.bytes) * (has_gradient(problem.profile.model, tensor) ? 2 : 1);
  }
  for (const LayerCost& cost : problem.profile.costs) {
    bytes += static_cast<double>(cost.parameter_bytes) / microbatches_per_update(problem.pricing);
    compute_s += cost.forward_s + cost.backward_input_s + cost.backward_weight_s;
  }
  for (const RankSpec& rank : problem.cluster.ranks) speed += rank.speed;
  return bytes / problem.cluster.intra_node.bandwidth_bytes_per_s > compute_s / speed;
}

}  // namespace sluice
