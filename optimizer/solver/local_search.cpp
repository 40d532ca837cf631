#include "optimizer/solver/local_search.h"

#include <algorithm>
#include <functional>

#include "core/index.h"

namespace sluice {
namespace {

using Works = std::vector<Work>;

bool contains(const Works& works, Work work) { return std::find(works.begin(), works.end(), work) != works.end(); }

/// One round: looks for a step that makes the given workers cheaper.
class Round {
 public:
  Round(const Problem& problem, const std::vector<Worker>& workers, double price, Deadline deadline)
      : problem_(problem), workers_(workers), price_(price), deadline_(deadline) {}

  /// The first better neighbour found, with its price; nothing if there is none.
  bool find(std::vector<Worker>& better, double& price) {
    const std::vector<int> busy = busiest_workers();
    for (const int worker : busy)
      if (moves_a_layer(worker) || moves_a_rank(worker) || swaps_ranks(worker)) {
        better = std::move(better_);
        price = price_;
        return true;
      }
    return false;
  }

 private:
  [[nodiscard]] std::vector<int> busiest_workers() const;
  bool moves_a_layer(int worker);
  bool moves_layers(int from, int to, const Works& works, int count);
  bool moves_a_rank(int worker);
  bool gives(int from, Rank rank, int to);
  bool swaps_ranks(int worker);
  bool accepts(std::vector<Worker> workers);
  [[nodiscard]] int worker_of(Rank rank) const;
  [[nodiscard]] int ranks() const { return static_cast<int>(problem_.cluster.ranks.size()); }

  const Problem& problem_;
  const std::vector<Worker>& workers_;
  double price_;
  Deadline deadline_;
  std::vector<Worker> better_;
};

bool Round::accepts(std::vector<Worker> workers) {
  if (std::chrono::steady_clock::now() > deadline_) return false;
  std::erase_if(workers, [](const Worker& worker) { return worker.works.empty(); });
  if (problem_.space.exactly) {
    std::size_t used = 0;
    for (const Worker& worker : workers) used += worker.ranks.size();
    if (used < problem_.cluster.ranks.size()) return false;
  }
  const double price = price_of(problem_, stages_of(workers));
  if (price * kRounding >= price_) return false;
  price_ = price;
  better_ = std::move(workers);
  return true;
}

std::vector<int> Round::busiest_workers() const {
  const Loads loads = loads_of(problem_.profile, problem_.cluster, stages_of(workers_), problem_.pricing);
  const Bottleneck worst = bottleneck(problem_.cluster, loads, problem_.pricing);
  std::vector<int> busy;
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (std::any_of(workers_[w].ranks.begin(), workers_[w].ranks.end(), [&](Rank rank) {
          return worst.where == (worst.resource == Resource::nic ? problem_.cluster.ranks[at(rank)].node : rank);
        }))
      busy.push_back(static_cast<int>(w));
  return busy;
}

/// From the worker to a neighbour or back: one, or several where single layers cost nothing.
bool Round::moves_a_layer(int worker) {
  if (problem_.space.ideals) return false;
  for (const Works& works : works_cut_together(problem_.space.cuts))
    for (const int neighbour : {worker - 1, worker + 1})
      for (const int count : {1, 2, 4, 8})
        if (neighbour >= 0 && neighbour < std::ssize(workers_) &&
            (moves_layers(worker, neighbour, works, count) || moves_layers(neighbour, worker, works, count)))
          return true;
  return false;
}

bool Round::moves_layers(int from, int to, const Works& works, int count) {
  std::vector<LayerId> layers;
  for (const Worker* worker : {&workers_[at(from)], &workers_[at(to)]})
    for (const LayerWork& own : worker->works)
      if (own.work == Work::recompute) return false;
  for (const LayerWork& own : workers_[at(from)].works)
    if (own.work == works.front()) layers.push_back(own.layer);
  if (std::ssize(layers) < count) return false;
  // The end that faces the neighbour.
  std::sort(layers.begin(), layers.end());
  const auto moved_from = to < from ? layers.begin() : layers.end() - count;
  const auto moved = [&](const LayerWork& own) {
    return contains(works, own.work) && own.layer >= *moved_from && own.layer <= *(moved_from + count - 1);
  };
  std::vector<Worker> workers = workers_;
  std::vector<LayerWork>& source = workers[at(from)].works;
  std::copy_if(source.begin(), source.end(), std::back_inserter(workers[at(to)].works), moved);
  std::erase_if(source, moved);
  return accepts(std::move(workers));
}

int Round::worker_of(Rank rank) const {
  for (std::size_t w = 0; w < workers_.size(); ++w)
    if (std::find(workers_[w].ranks.begin(), workers_[w].ranks.end(), rank) != workers_[w].ranks.end())
      return static_cast<int>(w);
  return kNone;
}

/// A replica more for the worker, or one less.
bool Round::moves_a_rank(int worker) {
  for (Rank rank = 0; rank < ranks(); ++rank)
    if (const int owner = worker_of(rank); owner != worker && gives(owner, rank, worker)) return true;
  for (const Rank rank : workers_[at(worker)].ranks)
    for (int other = 0; other < std::ssize(workers_); ++other)
      if (other != worker && gives(worker, rank, other)) return true;
  return false;
}

bool Round::gives(int from, Rank rank, int to) {
  if (std::ssize(workers_[at(to)].ranks) >= problem_.space.most_replicas) return false;
  if (from != kNone && workers_[at(from)].ranks.size() < 2) return false;
  std::vector<Worker> workers = workers_;
  if (from != kNone) std::erase(workers[at(from)].ranks, rank);
  workers[at(to)].ranks.push_back(rank);
  sort_replicas(workers[at(to)].ranks, problem_.cluster);
  return accepts(std::move(workers));
}

bool Round::swaps_ranks(int worker) {
  for (std::size_t i = 0; i < workers_[at(worker)].ranks.size(); ++i)
    for (Rank other = 0; other < ranks(); ++other) {
      const Rank own = workers_[at(worker)].ranks[i];
      const RankSpec &a = problem_.cluster.ranks[at(own)], &b = problem_.cluster.ranks[at(other)];
      if (a == b) continue;
      std::vector<Worker> workers = workers_;
      if (const int owner = worker_of(other); owner != kNone)
        std::replace(workers[at(owner)].ranks.begin(), workers[at(owner)].ranks.end(), other, kNone);
      workers[at(worker)].ranks[i] = other;
      for (Worker& w : workers) std::replace(w.ranks.begin(), w.ranks.end(), kNone, own);
      for (Worker& w : workers)
        if (w.ranks != workers_[static_cast<std::size_t>(&w - workers.data())].ranks)
          sort_replicas(w.ranks, problem_.cluster);
      if (accepts(std::move(workers))) return true;
    }
  return false;
}

}  // namespace

std::vector<Worker> improve(const Problem& problem, std::vector<Worker> workers, Deadline deadline) {
  double price = price_of(problem, stages_of(workers));
  while (Round(problem, workers, price, deadline).find(workers, price)) {
  }
  return workers;
}

}  // namespace sluice
