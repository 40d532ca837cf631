#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "runtime/device/device.h"
#include "runtime/nn/layer_runtime.h"

namespace sluice {

/// Memory for the weights that a rank fetches: exactly the slots of fetch_slot_bytes(), allocated once. In a slot lie
/// the packed copies of a stage's layers, then their masters.
class FetchSlots {
 public:
  /// @param layers  all that the rank runs
  FetchSlots(const Plan& plan, Rank rank, Device& device, const std::map<LayerId, LayerRuntime>& layers);

  struct Place {
    void* masters = nullptr;
    void* packed = nullptr;
  };
  /// Where the weights go that `program` fetches for the layer; nowhere if it fetches none.
  [[nodiscard]] Place find(const Program& program, LayerId layer) const;

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::vector<Buffer> slots_;
  std::map<std::pair<std::string, LayerId>, Place> places_;  ///< by program and layer
  std::int64_t bytes_ = 0;
};

}  // namespace sluice
