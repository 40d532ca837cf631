#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/profile.h"

namespace sluice {

struct ImportedProfile {
  Profile profile;
  std::vector<std::string> warnings;  ///< what looks wrong but can be planned with
};

/// Reads a profile in PipeDream's text format (Narayanan et al. 2019):
///
///     node4 -- Conv2d(3, 64) -- forward_compute_time=F, backward_compute_time=B, activation_size=X, parameter_size=W
///     \tnode4 -- node5
///
/// Times in ms per minibatch, which becomes one micro-batch; sizes in bytes; X may
/// be a list [a; b; c], which is summed. Input* nodes become tensors of the
/// dataset; sinks named __getitem__ are dropped. Layers stand in the order of
/// their node numbers where that is topological, otherwise in the topological
/// order that takes the smallest ready number first. The format does not say what a
/// backward reads: it is taken to need the layer's inputs, and to be one work.
/// @param file  for messages and the model's name
/// @throws Error (bad input) naming file and line: what cannot be read, values
/// that are negative or not finite, duplicate and unknown nodes, cycles.
[[nodiscard]] ImportedProfile import_pipedream(std::istream& in, const std::string& file);
[[nodiscard]] ImportedProfile import_pipedream(const std::string& file);

}  // namespace sluice
