#include "core/asynchronous.h"

#include <algorithm>
#include <map>

#include "core/index.h"
#include "core/schedule.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Rounds down, also below 0.
int floor_div(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// Appends a program to one that counts from the fill; what belongs to a micro-batch before it is left out.
void append(Program& whole, const Program& part, int microbatch_base, int version_base) {
  for (std::size_t rank = 0; rank < part.ranks.size(); ++rank)
    for (const Instruction& instruction : part.ranks[rank])
      if (const auto absolute = from_fill(instruction, microbatch_base, version_base))
        whole.ranks[rank].push_back(*absolute);
}

}  // namespace

std::optional<Instruction> from_fill(Instruction instruction, int microbatch_base, int version_base) {
  instruction.microbatch += microbatch_base;
  instruction.version = std::max(0, instruction.version + version_base);
  return instruction.microbatch >= 0 ? std::optional(instruction) : std::nullopt;
}

bool asynchronous(const Plan& plan) {
  const auto all = schedules();
  return std::any_of(all.begin(), all.end(),
                     [&](const Schedule& s) { return s.name == plan.schedule && s.asynchronous; });
}

bool counts_from_fill(const Plan& plan, const Program& program) {
  return asynchronous(plan) && program.name != "evaluate";
}

const Program& training_program(const Plan& plan) { return program(plan, asynchronous(plan) ? "steady" : "step"); }

WeightVersions::WeightVersions(const Plan& plan)
    : one_batch_late_(plan.schedule == "pipedream-2bw"),
      per_update_(one_batch_late_ ? plan.microbatches : 1),
      first_position_(plan.profile.model.layers.size(), static_cast<int>(plan.stages.size())) {
  std::map<int, int> position_of;  // by index
  for (const Stage& stage : plan.stages) position_of[stage.index];
  int positions = 0;
  for (auto& [index, position] : position_of) position = positions++;
  positions_ = positions;
  for (const Stage& stage : plan.stages) {
    position_.push_back(position_of[stage.index]);
    for (const LayerId layer : stage.layers)
      first_position_[at(layer)] = std::min(first_position_[at(layer)], position_.back());
  }
}

int WeightVersions::version(int stage, int microbatch) const {
  if (one_batch_late_) return floor_div(microbatch, per_update_) - 1;
  return microbatch - (positions_ - 1 - position_[at(stage)]);
}

int WeightVersions::lag(int stage, LayerId layer) const {
  return one_batch_late_ ? 0 : position_[at(stage)] - first_position_[at(layer)];
}

int WeightVersions::kept(LayerId layer) const { return one_batch_late_ ? 2 : positions_ - first_position_[at(layer)]; }

int versions_per_steady(const Plan& plan) { return plan.microbatches / WeightVersions(plan).microbatches_per_update(); }

Program unrolled_without_drain(const Plan& plan, int steadies) {
  const int versions = versions_per_steady(plan);
  Program whole{.name = text("fill, ", steadies, " x steady"), .ranks = {}};
  whole.ranks.resize(plan.cluster.ranks.size());
  append(whole, program(plan, "fill"), 0, 0);
  for (int n = 0; n < steadies; ++n) append(whole, program(plan, "steady"), n * plan.microbatches, n * versions);
  return whole;
}

Program unrolled(const Plan& plan, int steadies) {
  Program whole = unrolled_without_drain(plan, steadies);
  whole.name += ", drain";
  append(whole, program(plan, "drain"), steadies * plan.microbatches, steadies * versions_per_steady(plan));
  return whole;
}

int steadies_in_drain(const Plan& plan) {
  int last = plan.microbatches;
  for (const auto& list : program(plan, "steady").ranks)
    for (const Instruction& instruction : list) last = std::max(last, instruction.microbatch);
  return last / plan.microbatches;
}

int steadies_to_settle(const Plan& plan) {
  const int versions = versions_per_steady(plan);
  int settled = 0;
  for (const char* name : {"steady", "drain"})
    for (const auto& list : program(plan, name).ranks)
      for (const Instruction& instruction : list)
        settled = std::max({settled, -floor_div(instruction.microbatch, plan.microbatches),
                            -floor_div(instruction.version, versions)});
  return settled;
}

}  // namespace sluice
