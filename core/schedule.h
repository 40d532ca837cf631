#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster.h"

namespace sluice {

/// Which ranks own the positions of a pipeline of K ranks (and r replicas each, where a schedule takes them).
enum class Placement : std::uint8_t {
  line,         ///< K positions, position k on worker k
  round_robin,  ///< v K positions, position j on rank j mod K (Narayanan et al. 2021)
  vee,          ///< 2 K positions, down the ranks and up again: j and 2 K - 1 - j on rank j (Qi et al. 2024)
  both_ways,    ///< K positions with two replicas, position k on ranks k and K - 1 - k (Li, Hoefler 2021)
  given,        ///< wherever the stages say
  cooperative,  ///< K positions; forward on every rank in turn, the last one's and all the rest on rank k (Yu, Park
                ///< 2023)
};

/// True where the schedule needs positions on the ranks that the placement names.
[[nodiscard]] bool is_placed(Placement placement);

/// Owners of a position in a pipeline of `ranks` ranks. Cooperative: of all but the forward.
[[nodiscard]] std::vector<Rank> owners_at(Placement placement, int position, int ranks);

/// Positions of a pipeline of `ranks` ranks.
/// @param chunks  v: positions on each rank, if the placement is round_robin
[[nodiscard]] int positions_of(Placement placement, int ranks, int chunks);

/// interleaved-1f1b sends micro-batches through a chunk in groups: as many as have K members or more, as even as can
/// be. This is the size of the first, than which none is larger.
[[nodiscard]] int interleaved_group(int microbatches, int ranks);

/// What tells the schedules apart outside their generators (optimizer/schedule/generators.h).
struct Schedule {
  std::string_view name;
  Placement placement = Placement::line;
  bool asynchronous = false;     ///< programs fill, steady, drain instead of step; weights have versions
  bool halves_backward = false;  ///< backward-input and backward-weight are always apart
  bool delays_weights = false;   ///< a micro-batch's backward-weights wait for the first position's backward-input
};

/// What plans of a user's own schedule say (optimizer/schedule/schedule_text.h); not among schedules().
inline constexpr std::string_view kFileSchedule = "file";

/// All that are known, in the order of the documentation.
[[nodiscard]] std::span<const Schedule> schedules();

/// One of schedules(), or kFileSchedule.
/// @throws Error (bad input) for an unknown name, listing the known ones.
[[nodiscard]] const Schedule& schedule_named(std::string_view name);

/// "sequential, gpipe, 1f1b ...": the names, for messages and help.
[[nodiscard]] std::string schedule_names();

}  // namespace sluice
