#pragma once

#include <vector>

#include "core/profile.h"

/// Where PipeDream may cut.
namespace sluice {

/// A set of layers that holds all predecessors of its layers, and what it costs.
struct PipedreamState {
  std::vector<bool> layers;
  double compute_s = 0;
  double parameter_bytes = 0;
  double output_bytes = 0;    ///< of all its layers
  double crossing_bytes = 0;  ///< of those that layers outside read
};

[[nodiscard]] bool contains(const PipedreamState& outer, const PipedreamState& inner);
[[nodiscard]] std::vector<LayerId> layers_between(const PipedreamState& first, const PipedreamState& last);

/// From the empty state to the full one, none before one that it contains.
/// @param ideals  all such sets, else the prefixes of the layers' order
/// @throws Error (infeasible) for more than `most`
[[nodiscard]] std::vector<PipedreamState> pipedream_states(const Profile& profile, bool ideals,
                                                           std::int64_t most = 1'000'000);

}  // namespace sluice
