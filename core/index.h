#pragma once

#include <cstddef>

namespace sluice {

/// Ids of layers, tensors, stages and ranks are ints, kNone among them; containers want a size_t.
[[nodiscard]] constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace sluice
