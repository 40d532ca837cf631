#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "core/index.h"
#include "core/plan.h"

namespace sluice {

/// A value that occupies a buffer on a rank: an activation (any tensor of the
/// model, loaded, computed or received) or a gradient.
struct ValueClass {
  Payload payload = Payload::activation;  ///< activation or gradient
  TensorId tensor = kNone;
  int stage = kNone;  ///< gradient: the backward(-input) stage that made it, as in Transfer
  auto operator<=>(const ValueClass&) const = default;
};

/// A value class of one micro-batch.
struct ValueUse {
  ValueClass value;
  int microbatch = 0;
  auto operator<=>(const ValueUse&) const = default;
};

/// What an instruction reads and writes on its rank.
struct Access {
  std::vector<ValueUse> reads;
  std::vector<ValueUse> writes;
};

/// Who makes and who reads which value: follows from the model's needs and the
/// plan's stages, never from its instruction lists. Refers to `plan`, which must
/// outlive it and whose stages must be without fault (core/stage_check.h).
class DataFlow {
 public:
  explicit DataFlow(const Plan& plan);

  /// load: writes the dataset's tensors of that kind. forward, recompute: reads
  /// what its layers need from elsewhere, writes all tensors of its layers.
  /// backward: reads the tensors that its layers' backward works need and, for
  /// each tensor that they made, the gradient of each other stage that consumes
  /// it (ascending by stage: the order of summation); writes one gradient for
  /// each tensor that came from another stage. Gradients that only its own
  /// layers exchange are no values of the plan but scratch (see scratch_bytes).
  /// backward_input: likewise, but writes the gradients of all tensors that its
  /// layers read, since backward_weight stages read them: those of all stages
  /// that consume what their layers made.
  /// multicast_start: the root reads, the others write; multicast_wait: reads.
  /// Weights and all else: nothing.
  [[nodiscard]] Access access(const Instruction& instruction, Rank rank) const;

  /// Index into Plan::stages of the stage that holds the layer.
  [[nodiscard]] int forward_stage(LayerId layer) const { return forward_stage_[at(layer)]; }
  [[nodiscard]] int backward_stage(LayerId layer) const { return backward_stage_[at(layer)]; }  ///< or backward_input
  [[nodiscard]] int update_stage(LayerId layer) const { return update_stage_[at(layer)]; }      ///< or backward_weight

  /// True if the rank fetches the layer's weights for its forward stage (Stage::fetches_weights): it keeps none.
  [[nodiscard]] bool fetches(LayerId layer, Rank rank) const;

  /// True if stage `stage` reads a tensor, made by `producer`, that its recompute stage makes anew.
  [[nodiscard]] bool is_recomputed(int stage, LayerId producer) const;

 private:
  struct StageAccess {
    std::vector<ValueClass> reads;
    std::vector<ValueClass> writes;
  };
  [[nodiscard]] StageAccess stage_access(int index) const;
  [[nodiscard]] StageAccess forward_access(const Stage& stage) const;
  [[nodiscard]] StageAccess backward_access(int index) const;
  [[nodiscard]] std::vector<TensorId> differentiable_inputs(LayerId layer) const;
  [[nodiscard]] std::set<int> gradient_makers(TensorId tensor) const;
  [[nodiscard]] StageAccess load_access(TensorKind kind) const;

  const Plan* plan_;
  std::vector<int> forward_stage_, backward_stage_, update_stage_;  // by layer
  std::vector<int> recompute_stage_;                                // by stage that it serves, else kNone
  std::vector<std::vector<TensorId>> made_;                         // by layer
  std::vector<std::vector<LayerId>> consumers_;                     // by tensor
  std::vector<StageAccess> stages_;
  StageAccess input_, labels_;
};

/// From the instruction that first writes the value to the last that touches it,
/// inclusive. A recompute writes its values anew: what the forward left, or what
/// was received for a forward, ends with its last use before, or its send.
struct Lifetime {
  ValueClass value;
  int microbatch = 0;
  int first = 0;  ///< index into the rank's instructions: a compute, a load, or the start of a receive
  int last = 0;   ///< a compute that reads it, or the wait of a send or receive
  int slot = 0;   ///< which of the class's buffers it occupies
  bool operator==(const Lifetime&) const = default;
};

/// Buffers of one value class on one rank. In fill, steady and drain the slot of a micro-batch, counted from the fill,
/// is that number mod slots; slots are then as many as micro-batches from the oldest that is alive to the newest.
struct SlotClass {
  ValueClass value;
  std::int64_t bytes = 0;  ///< of one slot
  int slots = 0;           ///< the largest number of lifetimes that overlap
  bool operator==(const SlotClass&) const = default;
};

/// All buffers of a rank for one program.
struct BufferPlan {
  std::vector<SlotClass> classes;   ///< ascending by value
  std::vector<Lifetime> lifetimes;  ///< by first instruction
};
[[nodiscard]] BufferPlan plan_buffers(const Plan& plan, const Program& program, Rank rank);

/// Slots of each class that serve all of the plan's programs, which never run at
/// the same time: the largest number that any of them needs. The executor
/// allocates exactly these, the verifier counts exactly these.
[[nodiscard]] std::vector<SlotClass> slot_classes(const Plan& plan, Rank rank);

/// A backward(-input) stage hands gradients from layer to layer through two
/// buffers of this size in turn [B]: the largest gradient that stays inside one
/// of the rank's stages; 0 if none does. Enough for chains; where a tensor has
/// several consumers within a stage an executor needs more (none runs such a
/// model yet).
[[nodiscard]] std::int64_t scratch_bytes(const Plan& plan, Rank rank);

/// By layer: versions of its weights that every rank running it keeps: 1 in synchronous plans, see
/// WeightVersions::kept for asynchronous ones.
[[nodiscard]] std::vector<int> weight_versions(const Plan& plan);

/// Memory of a rank by use [B]. The peak is the sum: everything is allocated once.
struct MemoryUse {
  /// All versions of masters and packed copies of the layers that the rank runs in any work and does not fetch.
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;        ///< of the layers that it updates
  std::int64_t optimizer_state = 0;  ///< momentum: as large as the parameters it updates
  std::int64_t fetched_weights = 0;  ///< fetch_slot_bytes (core/fetched_weights.h)
  std::int64_t buffers = 0;          ///< slot_classes
  std::int64_t workspace = 0;        ///< the largest workspace of a layer, and twice scratch_bytes
  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + optimizer_state + fetched_weights + buffers + workspace;
  }
};
[[nodiscard]] MemoryUse memory_use(const Plan& plan, Rank rank);

}  // namespace sluice
