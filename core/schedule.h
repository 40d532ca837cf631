#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// Which ranks own the positions of a pipeline of K ranks (and r replicas each, where a schedule takes them).
enum class Placement : std::uint8_t {
  line,         ///< K positions, position k on worker k
  round_robin,  ///< v K positions, position j on rank j mod K (Narayanan et al. 2021)
  vee,          ///< 2 K positions, down the ranks and up again: j and 2 K - 1 - j on rank j (Qi et al. 2024)
  both_ways,    ///< K positions with two replicas, position k on ranks k and K - 1 - k (Li, Hoefler 2021)
  cooperative,  ///< K positions; forward on every rank in turn, the last one's and all the rest on rank k (Yu, Park
                ///< 2023)
};

/// What tells the schedules apart outside their generators (optimizer/schedule/generators.h).
struct Schedule {
  std::string_view name;
  Placement placement = Placement::line;
  bool asynchronous = false;     ///< programs fill, steady, drain instead of step; weights have versions
  bool halves_backward = false;  ///< backward-input and backward-weight are always apart
  bool delays_weights = false;   ///< a micro-batch's backward-weights wait for the first position's backward-input
  bool recomputes = false;       ///< backward stages always run their forward again
};

/// All that are known, in the order of the documentation.
[[nodiscard]] std::span<const Schedule> schedules();

/// @throws Error (bad input) for an unknown name, listing the known ones.
[[nodiscard]] const Schedule& schedule_named(std::string_view name);

/// "sequential, gpipe, 1f1b ...": the names, for messages and help.
[[nodiscard]] std::string schedule_names();

}  // namespace sluice
