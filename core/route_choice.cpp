#include "core/route_choice.h"

#include "core/index.h"

namespace sluice {

void choose_routes(Plan& plan) {
  for (Transfer& transfer : plan.transfers) {
    const bool sums = collective_of(transfer.payload) == CollectiveKind::all_reduce;
    transfer.route.algorithm =
        sums ? plan.all_reduce.value_or(Algorithm::ring) : plan.multicast.value_or(Algorithm::hierarchical);
  }
}

}  // namespace sluice
