#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/plan.h"

/// Asynchronous schedules: which version of the weights is used when, and how the programs fit together.
///
/// K positions on a line; position k is d_k = K - 1 - k micro-batches behind the last one. A layer whose forward sits
/// at position j and whose backward sits at k is d = K - 1 - min(j, k) behind, so that no forward waits for the update
/// of a later position. Counted from the fill, whose weights are version 0:
/// - pipedream (Narayanan et al. 2019): micro-batch m runs forward and backward with version max(0, m - d); the update
///   with the gradient of m alone makes version m + 1 from version m.
/// - pipedream-2bw (Narayanan et al. 2021): batch t of M micro-batches runs with version max(0, t - 1); the update
///   with its gradient makes version t + 1 from version t.
namespace sluice {

/// True if the plan's schedule is asynchronous; false for a name that is not known.
[[nodiscard]] bool asynchronous(const Plan& plan);
[[nodiscard]] bool asynchronous(std::string_view schedule);

/// True for fill, steady and drain: micro-batches and versions are relative to the program's base.
[[nodiscard]] bool counts_from_fill(const Plan& plan, const Program& program);

/// What runs again and again: "step", or "steady" of an asynchronous plan.
[[nodiscard]] const Program& training_program(const Plan& plan);

/// True for what uses, makes or carries weights: computes, optimizer steps and transfers of weights.
[[nodiscard]] bool has_version(const Plan& plan, const Instruction& instruction);

/// The formulas above for the stages of an asynchronous plan.
class WeightVersions {
 public:
  explicit WeightVersions(const Plan& plan);

  /// M or 1: how many micro-batches' gradients an update takes. Version v takes those up to v times this, minus one.
  [[nodiscard]] int microbatches_per_update() const { return per_update_; }

  /// Instruction::version of a stage's compute for a micro-batch, below 0 where max(0, ...) takes effect: that of
  /// the layers whose other work is at no earlier position.
  [[nodiscard]] int version(int stage, int microbatch) const;

  /// The first micro-batch that uses a version (at least 1) of a layer's weights.
  [[nodiscard]] int first_microbatch(int version, LayerId layer) const;

  /// By how much a layer of the stage is behind Instruction::version (then at least 0): its other work sits at an
  /// earlier position. 0 throughout pipedream-2bw and under joint cuts.
  [[nodiscard]] int lag(int stage, LayerId layer) const;

  /// How many versions every rank that runs the layer keeps: K - min(j, k), or 2. Version v of the weights replaces
  /// v minus this, in slot v mod this: when the optimizer step makes it, or where its receive starts.
  [[nodiscard]] int kept(LayerId layer) const;

 private:
  bool one_batch_late_;  ///< pipedream-2bw
  int per_update_;
  int positions_;                    ///< K
  std::vector<int> position_;        ///< by stage
  std::vector<int> first_position_;  ///< by layer: min(j, k)
};

/// An instruction of an asynchronous program, micro-batch and version counted from the fill; none if it is left out,
/// since its micro-batch is before the fill's first.
[[nodiscard]] std::optional<Instruction> from_fill(Instruction instruction, int microbatch_base, int version_base);

/// One straight program of fill, that many runs of steady, and drain, with micro-batches and versions counted from the
/// fill: what interpreters of asynchronous plans walk. It runs (steadies + steadies_in_drain()) M micro-batches.
[[nodiscard]] Program unrolled(const Plan& plan, int steadies);
[[nodiscard]] std::vector<Instruction> unrolled(const Plan& plan, int steadies, Rank rank);  ///< one rank's list

/// fill and that many runs of steady, without the end.
[[nodiscard]] Program unrolled_without_drain(const Plan& plan, int steadies);

/// Steady programs whose micro-batches the drain finishes: a run of n N micro-batches, n M, is fill, n minus this many
/// runs of steady, and drain, so n is at least this. The least with which no steady program touches what is not run.
[[nodiscard]] int steadies_in_drain(const Plan& plan);

/// Runs of steady after which none leaves anything out or uses the fill's weights for want of older ones.
[[nodiscard]] int steadies_to_settle(const Plan& plan);

/// Versions that one run of steady makes: M or 1.
[[nodiscard]] int versions_per_steady(const Plan& plan);

}  // namespace sluice
