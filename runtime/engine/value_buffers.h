#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/liveness.h"
#include "runtime/device/device.h"

namespace sluice {

/// The activations and gradients of one rank: exactly the slots of
/// slot_classes(), allocated once, at the places that plan_buffers() gives.
class ValueBuffers {
 public:
  ValueBuffers(const Plan& plan, Rank rank, Device& device);

  /// The slot of one micro-batch's value for instruction `index` of this rank's list in `program`: a recompute
  /// writes a value anew, maybe elsewhere. Null if the rank has no such value by then. In asynchronous programs
  /// the micro-batch is counted from the fill, and slots take turns.
  [[nodiscard]] void* find(const Program& program, int index, const ValueClass& value, int microbatch) const;

  /// All slots of a class; whatever was written last is still in them.
  [[nodiscard]] std::span<const Buffer> slots(const ValueClass& value) const;

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  struct Place {
    int first = 0;  ///< the instruction that first writes it
    int slot = 0;
  };
  std::map<ValueClass, std::vector<Buffer>> slots_;
  std::map<std::string, std::map<ValueUse, std::vector<Place>>>
      places_;  ///< by program with slots of its own; ascending by `first`
  std::int64_t bytes_ = 0;
};

}  // namespace sluice
