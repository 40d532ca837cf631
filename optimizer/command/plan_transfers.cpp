#include "optimizer/command/plan_transfers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/index.h"
#include "core/moves.h"
#include "core/text.h"
#include "results/text_table.h"

namespace sluice {
namespace {

TransferClass class_of(const Plan& plan, const Transfer& transfer) {
  const Group& group = plan.groups[at(transfer.group)];
  std::set<int> nodes;
  for (const Rank rank : group.members) nodes.insert(plan.cluster.ranks[at(rank)].node);
  TransferClass made{.payload = transfer.payload,
                     .members = static_cast<int>(group.members.size()),
                     .nodes = static_cast<int>(nodes.size()),
                     .bytes = transfer.bytes,
                     .route = transfer.route,
                     .predicted_s = transfer.predicted_s};
  for (const Move& move : moves_of(plan, transfer)) {
    const bool crosses = link_between(plan.cluster, move.from, move.to) == LinkKind::inter_node;
    (crosses ? made.inter_node_bytes : made.intra_node_bytes) += move.bytes;
  }
  return made;
}

}  // namespace

std::vector<std::pair<TransferClass, int>> transfer_classes(const Plan& plan) {
  std::map<TransferClass, int> counts;
  for (const Transfer& transfer : plan.transfers) ++counts[class_of(plan, transfer)];
  std::vector<std::pair<TransferClass, int>> classes(counts.begin(), counts.end());
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first.payload, -a.first.predicted_s) < std::tuple(b.first.payload, -b.first.predicted_s);
  });
  return classes;
}

Json transfers_json(const Plan& plan) {
  Json json = Json::array();
  for (const auto& [alike, count] : transfer_classes(plan))
    json.push_back({{"payload", to_string(alike.payload)},
                    {"transfers", count},
                    {"members", alike.members},
                    {"nodes", alike.nodes},
                    {"bytes", alike.bytes},
                    {"algorithm", to_string(alike.route.algorithm)},
                    {"segment_bytes", alike.route.segment_bytes},
                    {"predicted_s", alike.predicted_s},
                    {"intra_node_bytes", alike.intra_node_bytes},
                    {"inter_node_bytes", alike.inter_node_bytes}});
  return json;
}

std::string transfers_table(const Plan& plan) {
  constexpr std::size_t kMostRows = 12;
  if (plan.transfers.empty()) return "";
  const auto classes = transfer_classes(plan);
  std::vector<std::vector<std::string>> rows{{"", "transfers", "members", "nodes", "size", "algorithm", "segment",
                                              "one call takes", "carries in nodes", "between"}};
  for (std::size_t i = 0; i < std::min(kMostRows, classes.size()); ++i) {
    const auto& [alike, count] = classes[i];
    const std::int64_t segment = alike.route.segment_bytes;
    rows.push_back({to_string(alike.payload), text(count), text(alike.members), text(alike.nodes),
                    format_bytes(alike.bytes), to_string(alike.route.algorithm),
                    segment == 0 ? "whole" : format_bytes(segment), format_seconds(alike.predicted_s),
                    format_bytes(alike.intra_node_bytes), format_bytes(alike.inter_node_bytes)});
  }
  const std::size_t left = classes.size() - (rows.size() - 1);
  return text_table(rows) + (left > 0 ? text("and ", left, " more kinds: --json lists them\n") : "");
}

}  // namespace sluice
