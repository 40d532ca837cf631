#pragma once

#include <span>
#include <string>

#include "core/model.h"
#include "core/storage/checkpoint_files.h"

namespace sluice {

/// Every layer with parameters must be among `layers`, and every one of these a layer with parameters.
/// @throws Error (bad input) naming all that are missing or too many
void require_layers_of(const Model& model, std::span<const std::string> layers);

/// The states of the `wanted` layers of the model must have its parameters, with their shapes, and no others.
/// @throws Error (bad input) naming all that are missing, too many or of another shape
void require_fitting(const LayerStates& states, const Model& model, std::span<const std::string> wanted);
/// The same for all layers.
void require_fitting(const LayerStates& states, const Model& model);

}  // namespace sluice
