#include "core/cost_model.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/index.h"

namespace sluice {

double work_time(const LayerCost& cost, Work work) {
  switch (work) {
    case Work::forward:
    case Work::recompute:
      return cost.forward_s;
    case Work::backward:
      return cost.backward_input_s + cost.backward_weight_s;
    case Work::backward_input:
      return cost.backward_input_s;
    case Work::backward_weight:
      return cost.backward_weight_s;
  }
  return 0;
}

double stage_time(const Profile& profile, std::span<const LayerId> layers, Work work) {
  double seconds = 0;
  for (const LayerId layer : layers) seconds += work_time(profile.costs[at(layer)], work);
  return seconds;
}

double update_time(const Profile& profile, std::span<const LayerId> layers) {
  double seconds = 0;
  for (const LayerId layer : layers) seconds += profile.costs[at(layer)].update_s;
  return seconds;
}

double instruction_time(const Plan& plan, const Instruction& instruction, Rank rank) {
  if (instruction.stage == kNone) return 0;
  const Stage& stage = plan.stages[at(instruction.stage)];
  const double seconds = instruction.op == Op::optimizer_step ? update_time(plan.profile, stage.layers)
                                                              : stage_time(plan.profile, stage.layers, stage.work);
  return seconds / plan.cluster.ranks[at(rank)].speed;
}

Rank weights_server(const std::vector<Rank>& owners, Rank rank, const Cluster& cluster) {
  const auto near = std::find_if(owners.begin(), owners.end(), [&](Rank owner) {
    return link_between(cluster, owner, rank) == LinkKind::intra_node;
  });
  return near == owners.end() ? owners.front() : *near;
}

double ring_share(int members) { return 2.0 * (members - 1) / members; }

std::int64_t ring_bytes(std::int64_t bytes, int members, int edge) {
  return 2 * bytes - ring_chunk(bytes, members, edge + 1).bytes - ring_chunk(bytes, members, edge + 2).bytes;
}

double ring_time(const LinkClass& link, std::int64_t bytes, int members) {
  return 2 * (members - 1) * link.latency_s + static_cast<double>(bytes) / link.bandwidth_bytes_per_s;
}

double message_time(const LinkClass& link, std::int64_t bytes) {
  return link.latency_s + static_cast<double>(bytes) / link.bandwidth_bytes_per_s;
}

std::int64_t later_ns(std::int64_t now_ns, double seconds) {
  constexpr double kLatestNs = 100 * 365.25 * 86400 * 1e9;
  const double span_ns = seconds * 1e9;
  if (!(static_cast<double>(now_ns) + span_ns <= kLatestNs))
    throw bad_input("the plan takes more than 100 years: check the cluster's bandwidths, latencies and speeds");
  return now_ns + std::llround(span_ns);
}

}  // namespace sluice
