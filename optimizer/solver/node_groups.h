#pragma once

#include <map>
#include <vector>

#include "optimizer/solver/node_pipelines.h"
#include "optimizer/solver/search.h"

namespace sluice {

/// Pipelines that are cut jointly between nodes and as the search space likes inside them: a group of R
/// equal nodes in lockstep has an interval of layers, and in it the best pipeline of workers that search() finds
/// for the ranks of one node.
/// Searches inside nodes are dear and most intervals hopeless, so they are searched only when the path of
/// least bottleneck over all intervals, each at its price or else a lower bound, leads over them.
class NodeGroups {
 public:
  /// Keeps a reference to `pipelines`, which holds the costs.
  NodeGroups(const NodePipelines& pipelines, const SearchSpace& space);

  /// Workers of the best such pipeline found that is cheaper than `below` in the eyes of search() and of the
  /// NICs; none if there is none. Ends at the deadline, or after some hundreds of searches, with the best so far.
  [[nodiscard]] std::vector<Worker> best(double below, const NodeOrder& order, Deadline deadline);

 private:
  struct Group {
    int begin = 0, end = 0;  ///< positions in the order of the layers
    int behind = 0;          ///< nodes
    int nodes = 1;
    auto operator<=>(const Group&) const = default;
  };
  struct Inside {
    double price = 0;
    std::vector<Worker> workers;  ///< with the ranks of the group's last node
  };

  [[nodiscard]] std::vector<Group> least_path(double below) const;
  [[nodiscard]] int most_in_lockstep(int behind) const;
  [[nodiscard]] double compute_bound(const Group& group) const;
  [[nodiscard]] double price(const Group& group) const;  ///< a lower bound of it before its search
  [[nodiscard]] Group key(Group group) const;
  [[nodiscard]] Inside search_inside(const Group& group, double below, Deadline deadline) const;
  [[nodiscard]] double busy_nic_s(const Group& group, const std::vector<Worker>& workers) const;
  [[nodiscard]] std::vector<Worker> workers(const std::vector<Group>& path) const;

  const NodePipelines& pipelines_;
  SearchSpace space_;
  WorkGraph graph_;
  NodeOrder order_;            ///< from the last node on
  std::vector<double> speed_;  ///< of the ranks of the first k nodes of order_
  bool equal_nodes_ = true;
  bool place_matters_ = false;  ///< nodes differ, or memory depends on the ranks behind
  std::map<Group, Inside> searched_;
};

}  // namespace sluice
