#include "tests/unit/schedule/partition.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/index.h"
#include "core/schedule.h"
#include "core/text.h"

namespace sluice {
namespace {

void check(const Partition& partition) {
  if (partition.forward_bounds.size() != partition.backward_bounds.size())
    throw bad_input(text("forward bounds of ", partition.workers(), " workers, but backward bounds of ",
                         partition.backward_bounds.size() - 1));
  for (const auto* bounds : {&partition.forward_bounds, &partition.backward_bounds})
    if (bounds->size() < 2 || bounds->front() != 0 || bounds->back() != partition.forward_bounds.back() ||
        !std::is_sorted(bounds->begin(), bounds->end()))
      throw bad_input("the workers' bounds do not ascend from 0 to the number of layers");
}

void append_stages(std::vector<Stage>& stages, Work work, const std::vector<int>& bounds) {
  for (int k = 0; k + 1 < std::ssize(bounds); ++k) {
    std::vector<LayerId> layers(at(bounds[at(k + 1)] - bounds[at(k)]));
    std::iota(layers.begin(), layers.end(), bounds[at(k)]);
    if (!layers.empty()) stages.push_back({.work = work, .index = k, .layers = std::move(layers), .owners = {k}});
  }
}

}  // namespace

std::vector<Stage> stages_of(const Partition& partition) { return stages_of(partition, "1f1b", partition.workers()); }

std::vector<Stage> stages_of(const Partition& partition, std::string_view schedule, int ranks) {
  check(partition);
  const Schedule& row = schedule_named(schedule);
  std::vector<Stage> stages;
  append_stages(stages, Work::forward, partition.forward_bounds);
  append_stages(stages, row.halves_backward ? Work::backward_input : Work::backward, partition.backward_bounds);
  if (row.halves_backward) append_stages(stages, Work::backward_weight, partition.backward_bounds);
  for (Stage& stage : stages) stage.owners = owners_at(row.placement, stage.index, ranks);
  return stages;
}

}  // namespace sluice
