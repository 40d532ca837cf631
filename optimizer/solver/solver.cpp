#include "optimizer/solver/solver.h"

#include <algorithm>

namespace sluice {

Share share_of(const Partition& partition, int worker) {
  const auto k = static_cast<std::size_t>(worker);
  return {partition.forward_bounds[k], partition.forward_bounds[k + 1], partition.backward_bounds[k],
          partition.backward_bounds[k + 1]};
}

int used_workers(const Partition& partition) {
  int used = 0;
  for (int k = 0; k < partition.workers(); ++k) used += share_of(partition, k).empty() ? 0 : 1;
  return used;
}

namespace {

/// The largest of price(load, rank) over the workers that have work.
template <typename Price>
double largest(const PartitionCost& cost, const Partition& partition, const Price& price) {
  ShareSeat seat{.workers = used_workers(partition)};
  double most = 0;
  for (seat.rank = 0; seat.rank < partition.workers(); ++seat.rank) {
    const Share share = share_of(partition, seat.rank);
    if (share.empty()) continue;
    most = std::max(most, price(cost.load(share, seat), seat.rank));
    ++seat.position;
  }
  return most;
}

}  // namespace

double price(const Objective& objective, const Partition& partition) {
  return largest(objective.cost(), partition,
                 [&](const ShareLoad& load, Rank rank) { return objective.price(load, rank); });
}

double bottleneck_s(const PartitionCost& cost, const Partition& partition) {
  return largest(cost, partition, [&](const ShareLoad& load, Rank rank) { return cost.bottleneck_s(load, rank); });
}

}  // namespace sluice
