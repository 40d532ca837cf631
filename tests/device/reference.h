#pragma once

#include <vector>

#include "core/model.h"

/// The truth for kernels: each layer's forward pass in float64, written plainly.
/// Gradients need no code of their own, central differences of it give them.
namespace sluice::reference {

using Array = std::vector<double>;

/// @param input       (N, H, W, C) or (N, F)
/// @param parameters  in logical order, as the layer lists them
/// @param labels      (N), for the loss only
/// @return            (N, H_out, W_out, C_out) or (N, F_out); for the loss (N): its value per sample
[[nodiscard]] Array forward(const Layer& layer, std::int64_t samples, const Array& input,
                            const std::vector<Array>& parameters, const std::vector<std::int32_t>& labels = {});

}  // namespace sluice::reference
