#include "core/multicast_progress.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {

MulticastTree::MulticastTree(const Group& group, Algorithm algorithm, const Cluster& cluster)
    : members_(static_cast<int>(group.members.size())), table_(group.members) {
  root_ = member(group.root);
  table_.resize(at(2 * members_), kNone);
  std::vector<std::vector<int>> receivers(group.members.size());
  for (const Edge& edge : multicast_edges(group, algorithm, cluster)) {
    table_[at(members_ + member(edge.to))] = member(edge.from);
    receivers[at(member(edge.from))].push_back(member(edge.to));
  }
  int end = 3 * members_ + 1;
  table_.push_back(end);
  for (const auto& of_member : receivers) table_.push_back(end += static_cast<int>(of_member.size()));
  for (const auto& of_member : receivers) table_.insert(table_.end(), of_member.begin(), of_member.end());
}

int MulticastTree::member(Rank rank) const {
  const auto end = table_.begin() + members_;
  const auto found = std::lower_bound(table_.begin(), end, rank);
  if (found == end || *found != rank)
    throw bad_input(text("rank ", rank, " takes part in a multicast whose group does not have it"));
  return static_cast<int>(found - table_.begin());
}

void MulticastProgress::restart(const MulticastTree& tree) {
  tree_ = &tree;
  states_.assign(at(tree.members()), {});
  for (int member = 0; member < tree.members(); ++member)
    states_[at(member)].unsent = static_cast<int>(tree.receivers(member).size());
  states_[at(tree.root())].holds = true;
}

}  // namespace sluice
