#include "core/multicast_progress.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {

MulticastTree::MulticastTree(const Group& group, const Cluster& cluster)
    : ranks_(group.members),
      root_(member(group.root)),
      senders_(group.members.size(), kNone),
      receivers_(group.members.size()) {
  for (const Edge& edge : multicast_edges(group, cluster)) {
    senders_[at(member(edge.to))] = member(edge.from);
    receivers_[at(member(edge.from))].push_back(member(edge.to));
  }
}

int MulticastTree::member(Rank rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (found == ranks_.end() || *found != rank)
    throw bad_input(text("rank ", rank, " takes part in a multicast whose group does not have it"));
  return static_cast<int>(found - ranks_.begin());
}

void MulticastProgress::restart(const MulticastTree& tree) {
  tree_ = &tree;
  states_.assign(at(tree.members()), {});
  for (int member = 0; member < tree.members(); ++member)
    states_[at(member)].unsent = static_cast<int>(tree.receivers(member).size());
  states_[at(tree.root())].holds = true;
}

}  // namespace sluice
