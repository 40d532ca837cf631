#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/liveness.h"

namespace sluice {

/// The weights of a forward stage that a rank fetches for it (Stage::fetches_weights): held from the start of the
/// first receive to the last receive's wait or forward of the stage, whichever is later.
struct FetchLifetime {
  int stage = kNone;  ///< index into Plan::stages
  int first = 0;      ///< index into the rank's instructions
  int last = 0;
  int slot = 0;
  bool operator==(const FetchLifetime&) const = default;
};

/// A rank's programs hold the weights of this many stages at a time besides its own (Yu, Park 2023).
inline constexpr int kFetchedStagesHeld = 2;

/// In the order of their first instructions; stages whose weights the program never receives have none.
[[nodiscard]] std::vector<FetchLifetime> fetch_lifetimes(const Plan& plan, const Program& program, Rank rank);

/// Forward stages for which the rank fetches weights, in the pipeline's order: it has micro-batches of them, and they
/// have layers with parameters that it does not update.
[[nodiscard]] std::vector<int> fetching_stages(const Plan& plan, const DataFlow& flow, Rank rank);

/// The layers of a stage whose weights the rank fetches, ascending.
[[nodiscard]] std::vector<LayerId> fetched_layers(const Plan& plan, const DataFlow& flow, int stage, Rank rank);

/// Bytes of each slot: the largest stage that it ever holds in any of the programs.
/// @param bytes_of  a layer's masters and packed copies [B]
[[nodiscard]] std::vector<std::int64_t> fetch_slot_bytes(const Plan& plan, Rank rank,
                                                         const std::function<std::int64_t(LayerId)>& bytes_of);

/// Likewise, by the plan's profile.
[[nodiscard]] std::vector<std::int64_t> fetch_slot_bytes(const Plan& plan, Rank rank);

}  // namespace sluice
