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

  /// The slot of one micro-batch's value in `program`; null if the program has no such value on this rank.
  [[nodiscard]] void* find(const Program& program, const ValueClass& value, int microbatch) const;

  /// All slots of a class; whatever was written last is still in them.
  [[nodiscard]] std::span<const Buffer> slots(const ValueClass& value) const;

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::map<ValueClass, std::vector<Buffer>> slots_;
  std::map<std::string, std::map<ValueUse, int>> slot_of_;  ///< by program
  std::int64_t bytes_ = 0;
};

}  // namespace sluice
