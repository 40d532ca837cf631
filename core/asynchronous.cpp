#include "core/asynchronous.h"

#include <algorithm>
#include <map>

#include "core/division.h"
#include "core/index.h"
#include "core/schedule.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Appends a program to one that counts from the fill; what belongs to a micro-batch before it is left out.
void append(std::vector<Instruction>& whole, const std::vector<Instruction>& part, int microbatch_base,
            int version_base) {
  for (const Instruction& instruction : part)
    if (const auto absolute = from_fill(instruction, microbatch_base, version_base)) whole.push_back(*absolute);
}

std::vector<Instruction> unrolled_list(const Plan& plan, Rank rank, int steadies, bool drains) {
  const int versions = versions_per_steady(plan);
  std::vector<Instruction> list;
  append(list, program(plan, "fill").ranks[at(rank)], 0, 0);
  for (int n = 0; n < steadies; ++n)
    append(list, program(plan, "steady").ranks[at(rank)], n * plan.microbatches, n * versions);
  if (drains) append(list, program(plan, "drain").ranks[at(rank)], steadies * plan.microbatches, steadies * versions);
  return list;
}

}  // namespace

std::optional<Instruction> from_fill(Instruction instruction, int microbatch_base, int version_base) {
  instruction.microbatch += microbatch_base;
  instruction.version = std::max(0, instruction.version + version_base);
  return instruction.microbatch >= 0 ? std::optional(instruction) : std::nullopt;
}

bool asynchronous(const Plan& plan) { return asynchronous(plan.schedule); }

bool asynchronous(std::string_view schedule) {
  const auto all = schedules();
  return std::any_of(all.begin(), all.end(), [&](const Schedule& s) { return s.name == schedule && s.asynchronous; });
}

bool counts_from_fill(const Plan& plan, const Program& program) {
  return asynchronous(plan) && program.name != "evaluate";
}

const Program& training_program(const Plan& plan) { return program(plan, asynchronous(plan) ? "steady" : "step"); }

bool has_version(const Plan& plan, const Instruction& instruction) {
  if (is_compute(instruction.op) || instruction.op == Op::optimizer_step) return true;
  return instruction.transfer != kNone && plan.transfers[at(instruction.transfer)].payload == Payload::weights;
}

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
  if (one_batch_late_) return divided_down(microbatch, per_update_) - 1;
  return microbatch - (positions_ - 1 - position_[at(stage)]);
}

int WeightVersions::first_microbatch(int version, LayerId layer) const {
  return one_batch_late_ ? (version + 1) * per_update_ : version + kept(layer) - 1;
}

int WeightVersions::lag(int stage, LayerId layer) const {
  return one_batch_late_ ? 0 : position_[at(stage)] - first_position_[at(layer)];
}

int WeightVersions::kept(LayerId layer) const { return one_batch_late_ ? 2 : positions_ - first_position_[at(layer)]; }

int versions_per_steady(const Plan& plan) { return plan.microbatches / WeightVersions(plan).microbatches_per_update(); }

std::vector<Instruction> unrolled(const Plan& plan, int steadies, Rank rank) {
  return unrolled_list(plan, rank, steadies, true);
}

Program unrolled_without_drain(const Plan& plan, int steadies) {
  Program whole{.name = text("fill, ", steadies, " x steady"), .ranks = {}};
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
    whole.ranks.push_back(unrolled_list(plan, rank, steadies, false));
  return whole;
}

Program unrolled(const Plan& plan, int steadies) {
  Program whole{.name = text("fill, ", steadies, " x steady, drain"), .ranks = {}};
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank)
    whole.ranks.push_back(unrolled(plan, steadies, rank));
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
        settled = std::max({settled, -divided_down(instruction.microbatch, plan.microbatches),
                            -divided_down(instruction.version, versions)});
  return settled;
}

}  // namespace sluice
