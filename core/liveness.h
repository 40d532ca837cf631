#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/plan.h"

namespace sluice {

/// A value that occupies a buffer on a rank: an activation (any tensor of the
/// model, loaded, computed or received) or a gradient.
struct ValueClass {
  Payload payload = Payload::activation;  ///< activation or gradient
  TensorId tensor = kNone;
  int stage = kNone;  ///< gradient: the backward stage that made it, as in Transfer
  auto operator<=>(const ValueClass&) const = default;
};

/// From the instruction that first writes the value to the last that touches it, inclusive.
struct Lifetime {
  ValueClass value;
  int microbatch = 0;
  int first = 0;  ///< index into the rank's instructions: compute, load, or the start of a receive
  int last = 0;   ///< a compute that reads it, or the wait of a send or receive
  int slot = 0;   ///< which of the class's buffers it occupies
  bool operator==(const Lifetime&) const = default;
};

/// Buffers of one value class on one rank.
struct SlotClass {
  ValueClass value;
  std::int64_t bytes = 0;  ///< of one slot
  int slots = 0;           ///< the largest number of lifetimes that overlap
  bool operator==(const SlotClass&) const = default;
};

/// All buffers of a rank for one program. The executor allocates exactly these,
/// the verifier counts exactly these.
struct BufferPlan {
  std::vector<SlotClass> classes;   ///< ascending by value
  std::vector<Lifetime> lifetimes;  ///< by first instruction
};

[[nodiscard]] BufferPlan plan_buffers(const Plan& plan, const Program& program, Rank rank);

/// What an instruction reads and writes on its rank. Within a stage's forward
/// all tensors of its layers are written; within its backward the gradients
/// that only its own layers exchange are not values of the plan (they are
/// scratch of the executor, counted by `scratch_bytes`).
struct ValueUse {
  ValueClass value;
  int microbatch = 0;
};
struct Access {
  std::vector<ValueUse> reads;
  std::vector<ValueUse> writes;
};
[[nodiscard]] Access access(const Plan& plan, const Instruction& instruction, Rank rank);

/// Memory of a rank by use [B]. The peak is the sum: everything is allocated once.
struct MemoryUse {
  std::int64_t parameters = 0;       ///< masters and packed copies of all layers that the rank runs in any work
  std::int64_t gradients = 0;        ///< of the layers that it updates
  std::int64_t optimizer_state = 0;  ///< momentum: as large as the parameters it updates
  std::int64_t buffers = 0;          ///< slots; the largest program counts
  std::int64_t workspace = 0;        ///< the largest workspace and in-stage gradient scratch
  [[nodiscard]] std::int64_t total() const { return parameters + gradients + optimizer_state + buffers + workspace; }
};
[[nodiscard]] MemoryUse memory_use(const Plan& plan, Rank rank);

}  // namespace sluice
