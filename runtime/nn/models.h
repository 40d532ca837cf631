#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/nn/model_builder.h"

namespace sluice {

/// Names that build_model knows: "lenet5", "vgg11", "vgg16".
[[nodiscard]] std::span<const char* const> model_names();

/// A network for images of any size and any number of classes.
/// lenet5: LeCun, Bottou, Bengio, Haffner 1998, with ReLU and max pooling.
/// vgg11, vgg16: Simonyan, Zisserman 2015, configurations A and D; three linear
/// layers of hidden width 4096 with dropout 0.5, fed by what five poolings leave.
/// @throws Error (bad input) for an unknown name, or naming the layer at which the image vanishes.
[[nodiscard]] Model build_model(const std::string& name, ImageShape image, std::int64_t classes,
                                std::int64_t microbatch);

}  // namespace sluice
