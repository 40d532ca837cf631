#pragma once

#include <optional>

#include "core/plan.h"

/// How collectives travel best: a model, whose figures `sluice-run probe` measures on the job's own nodes.
namespace sluice {

/// Time of one collective on idle links [s]: its moves (core/moves.h) played as simulate() would. On equal links with
/// one rank a node this is Hockney's formula of each algorithm (Thakur, Rabenseifner, Gropp 2005).
/// @param bytes  the payload; of all-to-all: what one member has for one other
[[nodiscard]] double collective_time(CollectiveKind kind, const Group& group, const Route& route, std::int64_t bytes,
                                     const Cluster& cluster);

struct RouteChoice {
  Route route;
  double seconds = 0;  ///< collective_time of it
};

/// The route that the model finds fastest: of all algorithms aware of nodes (so that every byte enters a node once),
/// or of `asked` alone, with the best segment size. One message does for two members.
/// @throws Error (bad input) if `asked` does not know the collective.
[[nodiscard]] RouteChoice choose_route(CollectiveKind kind, const Group& group, std::int64_t bytes,
                                       const Cluster& cluster, std::optional<Algorithm> asked = {});

/// Sets route and time of all transfers, by the plan's cluster and by what was asked for.
void choose_routes(Plan& plan);

}  // namespace sluice
