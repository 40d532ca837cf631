#pragma once

#include <vector>

#include "core/plan.h"
#include "optimizer/command/plan_json.h"

namespace sluice {

/// Transfers that are alike but for what they carry: payloads of one size that travel alike between members that sit
/// alike.
struct TransferClass {
  Payload payload = Payload::activation;
  int members = 0;
  int nodes = 0;  ///< that the members sit on
  std::int64_t bytes = 0;
  Route route;
  double predicted_s = 0;             ///< of one call on idle links
  std::int64_t intra_node_bytes = 0;  ///< that one call moves within nodes, all messages together
  std::int64_t inter_node_bytes = 0;  ///< and between
  auto operator<=>(const TransferClass&) const = default;
};

/// By payload, then by what one call takes: the longest first. Each with the number of its transfers.
[[nodiscard]] std::vector<std::pair<TransferClass, int>> transfer_classes(const Plan& plan);

/// All of them, as a table of objects.
[[nodiscard]] Json transfers_json(const Plan& plan);

/// The first of them, for people; empty if the plan moves nothing.
[[nodiscard]] std::string transfers_table(const Plan& plan);

}  // namespace sluice
