#include "runtime/comm/collective_part.h"

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

void require_member(Rank rank, const char* collective, const Group& group, int ranks) {
  for (const Rank member : group.members)
    if (member < 0 || member >= ranks)
      throw runtime_fault(text(collective, ": member ", member, " does not fit a communicator of ", ranks, " ranks"));
  for (const Rank wanted : {rank, group.root})
    if (!is_member(group, wanted)) throw runtime_fault(text(collective, ": rank ", wanted, " is not a member"));
}

}  // namespace

CollectivePart collective_part(Rank rank, int ranks, CollectiveKind kind, const Group& group, const Route& route,
                               std::int64_t bytes, const Cluster& cluster) {
  if (bytes < 0) throw runtime_fault(text(to_string(kind), " of ", bytes, " bytes"));
  if (kind == CollectiveKind::all_reduce && bytes % static_cast<std::int64_t>(sizeof(float)) != 0)
    throw runtime_fault(text(to_string(kind), " of ", bytes, " bytes: these are no whole float32 values"));
  require_member(rank, to_string(kind), group, ranks);
  return {.kind = kind,
          .group = group,
          .route = route,
          .bytes = bytes,
          .steps = steps_of(rank, collective_moves(kind, group, route, bytes, cluster))};
}

}  // namespace sluice
