#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "core/worker_cost.h"
#include "random_profile.h"

namespace sluice::testing {

enum class RandomCuts { joint, independent, three };

/// One worker of a random pipeline.
struct RandomWorker {
  std::vector<LayerWork> works;
  std::vector<Rank> ranks;
};

/// A worker for each layer, never an earlier one than a predecessor's: a chain of ideals.
inline std::vector<int> random_ideals(RandomCase& random, const Model& model, int workers) {
  std::vector<int> worker_of;
  for (const LayerNeeds& needs : model.needs) {
    int least = 0;
    for (const TensorId t : needs.forward) {
      const LayerId producer = model.tensors[at(t)].producer;
      if (producer != kDataset) least = std::max(least, worker_of[at(producer)]);
    }
    worker_of.push_back(random.chance(0.6) ? least : random.between(least, workers - 1));
  }
  return worker_of;
}

/// Up to `most_workers` workers with 1 to `most_replicas` ranks each, taken in ascending or in random order;
/// none is without work.
inline std::vector<RandomWorker> random_workers(RandomCase& random, const Model& model, RandomCuts cuts,
                                                int most_workers, int most_replicas, bool recompute) {
  std::vector<RandomWorker> workers(at(random.between(1, most_workers)));
  const int count = static_cast<int>(workers.size());
  const std::vector<int> forward = random_ideals(random, model, count);
  const std::vector<int> input = cuts == RandomCuts::joint ? forward : random_ideals(random, model, count);
  const std::vector<int> weight = cuts != RandomCuts::three ? input : random_ideals(random, model, count);
  for (LayerId l = 0; l < std::ssize(model.layers); ++l) {
    workers[at(forward[at(l)])].works.push_back({l, Work::forward});
    if (cuts == RandomCuts::three) {
      workers[at(input[at(l)])].works.push_back({l, Work::backward_input});
      workers[at(weight[at(l)])].works.push_back({l, Work::backward_weight});
    } else {
      workers[at(input[at(l)])].works.push_back({l, Work::backward});
    }
    if (recompute && random.chance(0.4)) workers[at(input[at(l)])].works.push_back({l, Work::recompute});
  }
  std::erase_if(workers, [](const RandomWorker& worker) { return worker.works.empty(); });
  Rank next = 0;
  for (RandomWorker& worker : workers)
    for (int replicas = random.between(1, most_replicas); replicas > 0; --replicas) worker.ranks.push_back(next++);
  return workers;
}

inline int rank_count(const std::vector<RandomWorker>& workers) {
  int count = 0;
  for (const RandomWorker& worker : workers) count += static_cast<int>(worker.ranks.size());
  return count;
}

inline std::vector<Stage> stages_of_random(const std::vector<RandomWorker>& workers) {
  std::vector<Stage> stages;
  for (int k = 0; k < std::ssize(workers); ++k) {
    std::map<Work, Stage> by_work;
    for (const LayerWork& work : workers[at(k)].works) by_work[work.work].layers.push_back(work.layer);
    for (auto& [work, stage] : by_work) {
      stage.work = work;
      stage.index = k;
      stage.owners = workers[at(k)].ranks;
      stages.push_back(stage);
    }
  }
  return stages;
}

inline std::vector<Seat> seats_of(const std::vector<RandomWorker>& workers) {
  std::vector<Seat> seats;
  int before = 0;
  for (const RandomWorker& worker : workers) {
    const int replicas = static_cast<int>(worker.ranks.size());
    seats.push_back({replicas, rank_count(workers) - before, rank_count(workers)});
    before += replicas;
  }
  return seats;
}

}  // namespace sluice::testing
