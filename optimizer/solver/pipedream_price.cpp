#include "optimizer/solver/pipedream_price.h"

#include <algorithm>

#include "optimizer/solver/pipedream_levels.h"

namespace sluice {

double PipedreamPrice::price(const WorkerLoad& load, const Seat& seat, const RankSpec& rank) const {
  if (rank.memory_bytes != kUnlimitedMemory && cost_->memory_bytes(load, seat) > rank.memory_bytes)
    return std::numeric_limits<double>::infinity();
  return pipedream_stage_s(load.compute_s / rank.speed, load.updated_bytes, seat.replicas, bandwidth_bytes_per_s_);
}

double PipedreamPrice::floor(const WorkerLoad& load, int most_replicas, const RankSpec& rank) const {
  // With x = 1/r the price is x (time + q) - x x q: concave, so least at one of the ends.
  const auto with = [&](int replicas) {
    return pipedream_stage_s(load.compute_s / rank.speed, load.updated_bytes, replicas, bandwidth_bytes_per_s_);
  };
  return std::min(with(1), with(most_replicas));
}

}  // namespace sluice
