#pragma once

#include <cstdint>
#include <vector>

#include "core/model.h"

/// What the shapes of a runnable layer must be. Models are built by these rules
/// and, since they also arrive in files, kernels check them before they trust a size.
namespace sluice {

/// Places of a window of width `kernel` along `extent` elements with `padding` on both ends; 0 if it does not fit.
[[nodiscard]] std::int64_t window_positions(std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                                            std::int64_t padding);

/// The parameters that the layer's kind, input and output shape imply.
[[nodiscard]] std::vector<Parameter> implied_parameters(const Layer& layer);

/// @throws Error (bad input) naming layer and shape if the layer's kind cannot be run, or if its
/// shapes, window and parameters do not belong together.
void check_shapes(const Layer& layer);

}  // namespace sluice
