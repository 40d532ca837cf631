#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/moves.h"
#include "core/plan.h"

/// How collectives travel best: a model, whose figures `sluice-run probe` measures on the job's own nodes.
namespace sluice {

/// Time of one collective on idle links [s], in whole nanoseconds: its moves (core/moves.h) played as simulate()
/// would. On equal links with one rank a node this is Hockney's formula of each algorithm (Thakur, Rabenseifner, Gropp
/// 2005).
/// @param bytes  the payload; of all-to-all: what one member has for one other
/// @throws Error (bad input) past 100 years
[[nodiscard]] double collective_time(CollectiveKind kind, const Group& group, const Route& route, std::int64_t bytes,
                                     const Cluster& cluster);

/// The same of any list of moves. @param classes  what their messages take (link_classes())
[[nodiscard]] double moves_time(std::span<const Move> moves, const LinkClasses& classes, const Cluster& cluster);

/// Segments below this are not chosen [bytes]: what a message costs its processors is not in the model.
inline constexpr std::int64_t kLeastSegment = 16 << 10;
/// Nor more segments than this: they gain little.
inline constexpr int kMostSegments = 64;

struct RouteChoice {
  Route route;
  double seconds = 0;  ///< collective_time of it
};

/// The route that the model finds fastest: of all algorithms aware of nodes (so that every byte enters a node once),
/// or of `asked` alone, with the best segment size: a power of two, so that what is chosen was measured. Of equals the
/// first of algorithms(), with the fewest segments.
/// One message does for two members.
/// @throws Error (bad input) if `asked` does not know the collective.
[[nodiscard]] RouteChoice choose_route(CollectiveKind kind, const Group& group, std::int64_t bytes,
                                       const Cluster& cluster, std::optional<Algorithm> asked = {});

/// choose_route with a memory. Who the members are does not matter, only how they sit: groups that sit alike share
/// what was found for one of them.
class RouteChooser {
 public:
  /// @param cluster  must outlive this
  explicit RouteChooser(const Cluster& cluster, std::optional<Algorithm> multicast = {},
                        std::optional<Algorithm> all_reduce = {})
      : cluster_(cluster), multicast_(multicast), all_reduce_(all_reduce) {}

  [[nodiscard]] const RouteChoice& choose(CollectiveKind kind, const Group& group, std::int64_t bytes);

 private:
  struct Seating {
    CollectiveKind kind;
    std::int64_t bytes;
    int root;                // its place among the members
    std::vector<int> nodes;  // of the members, numbered from 0 in ascending order
    auto operator<=>(const Seating&) const = default;
  };

  const Cluster& cluster_;
  std::optional<Algorithm> multicast_;
  std::optional<Algorithm> all_reduce_;
  std::map<Seating, RouteChoice> known_;
};

/// Sets route and time of all transfers, by the plan's cluster and by what was asked for.
void choose_routes(Plan& plan);

}  // namespace sluice
