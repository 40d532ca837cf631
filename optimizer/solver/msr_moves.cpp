#include "optimizer/solver/msr_moves.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "core/index.h"
#include "core/topological_order.h"
#include "optimizer/solver/msr_graph.h"

namespace sluice {
namespace {

constexpr std::size_t kLongestRun = 64;

/// Layers on devices: those of the pipeline in its order, then the ones that it leaves out.
class Placement {
 public:
  Placement(const Profile& profile, const Cluster& cluster, const MsrGraph& graph, const std::vector<Stage>& stages);

  /// Moves runs until none helps.
  void improve(Deadline deadline);
  [[nodiscard]] std::vector<Stage> stages() const;

 private:
  struct Device {
    Rank rank = 0;
    MsrWeight weight;
    double cut_s = 0;         ///< transfers of tensors that it has some layers of but not all
    std::vector<int> inside;  ///< by net: its layers
  };

  void add(int unit, int device);
  void remove(int unit, int device);
  void move(int unit, int to);
  [[nodiscard]] double load(int device) const;
  [[nodiscard]] double larger_load(int a, int b) const { return std::max(load(a), load(b)); }
  [[nodiscard]] bool may_move(int unit, int to) const;
  [[nodiscard]] bool improve_pair(int from, int to);
  [[nodiscard]] bool improve_runs(std::vector<int> units, int to);
  [[nodiscard]] bool move_run(const std::vector<int>& units, std::size_t begin, int to);

  const Cluster& cluster_;
  const MsrGraph& graph_;
  std::vector<std::vector<int>> predecessors_;
  std::vector<bool> backward_;  ///< by unit
  std::vector<Device> devices_;
  int pipeline_ = 0;            ///< devices of it
  std::vector<int> device_of_;  ///< by unit
};

Placement::Placement(const Profile& profile, const Cluster& cluster, const MsrGraph& graph,
                     const std::vector<Stage>& stages)
    : cluster_(cluster),
      graph_(graph),
      predecessors_(reversed(graph_.order.successors)),
      device_of_(graph_.weights.size()) {
  std::vector<int> device_of_layer(profile.model.layers.size());
  std::set<Rank> unused;
  for (Rank rank = 0; rank < std::ssize(cluster.ranks); ++rank) unused.insert(rank);
  for (const Stage& stage : stages) {
    for (const LayerId layer : stage.layers) device_of_layer[at(layer)] = pipeline_;
    devices_.push_back({stage.owners.front(), {}, 0, std::vector<int>(graph_.nets.size())});
    unused.erase(stage.owners.front());
    ++pipeline_;
  }
  for (const Rank rank : unused) devices_.push_back({rank, {}, 0, std::vector<int>(graph_.nets.size())});
  for (int unit = 0; unit < std::ssize(graph_.weights); ++unit) {
    const LayerId layer = graph_.order.units[at(unit)].works.front().layer;
    backward_.push_back(profile.model.layers[at(layer)].backward);
    device_of_[at(unit)] = device_of_layer[at(layer)];
    add(unit, device_of_[at(unit)]);
  }
}

void Placement::add(int unit, int device) {
  Device& d = devices_[at(device)];
  d.weight += graph_.weights[at(unit)];
  for (const int n : graph_.nets_of[at(unit)]) {
    const MsrNet& net = graph_.nets[at(n)];
    const int inside = ++d.inside[at(n)];
    if (inside == 1) d.cut_s += net.transfer_s;
    if (inside == std::ssize(net.units)) d.cut_s -= net.transfer_s;
  }
}

void Placement::remove(int unit, int device) {
  Device& d = devices_[at(device)];
  d.weight -= graph_.weights[at(unit)];
  for (const int n : graph_.nets_of[at(unit)]) {
    const MsrNet& net = graph_.nets[at(n)];
    const int inside = --d.inside[at(n)];
    if (inside == 0) d.cut_s -= net.transfer_s;
    if (inside == std::ssize(net.units) - 1) d.cut_s += net.transfer_s;
  }
}

void Placement::move(int unit, int to) {
  remove(unit, device_of_[at(unit)]);
  add(unit, to);
  device_of_[at(unit)] = to;
}

double Placement::load(int device) const {
  const Device& d = devices_[at(device)];
  return msr_load(d.weight, d.cut_s, cluster_.ranks[at(d.rank)]);
}

bool Placement::may_move(int unit, int to) const {
  if (backward_[at(unit)]) return true;
  const auto& before = predecessors_[at(unit)];
  const auto& after = graph_.order.successors[at(unit)];
  return to < pipeline_ && std::all_of(before.begin(), before.end(), [&](int u) { return device_of_[at(u)] <= to; }) &&
         std::all_of(after.begin(), after.end(), [&](int u) { return backward_[at(u)] || device_of_[at(u)] >= to; });
}

/// Tries the longest useful run from `begin` on: keeps the best beginning of it, if that lowers the larger load.
bool Placement::move_run(const std::vector<int>& units, std::size_t begin, int to) {
  const int from = device_of_[at(units[begin])];
  double least = larger_load(from, to) * (1 - 1e-9);
  std::vector<int> moved;
  std::size_t kept = 0;
  for (std::size_t i = begin; i < std::min(units.size(), begin + kLongestRun); ++i) {
    if (!may_move(units[i], to)) break;
    move(units[i], to);
    moved.push_back(units[i]);
    if (larger_load(from, to) < least) {
      least = larger_load(from, to);
      kept = moved.size();
    }
  }
  for (; moved.size() > kept; moved.pop_back()) move(moved.back(), from);
  return kept > 0;
}

bool Placement::improve_runs(std::vector<int> units, int to) {
  bool any = false;
  for (std::size_t begin = 0; begin < units.size();) {
    if (!move_run(units, begin, to)) {
      ++begin;
      continue;
    }
    any = true;
    std::erase_if(units, [&](int unit) { return device_of_[at(unit)] == to; });
  }
  return any;
}

bool Placement::improve_pair(int from, int to) {
  std::vector<int> forward, backward;
  for (int unit = 0; unit < std::ssize(device_of_); ++unit)
    if (device_of_[at(unit)] == from) (backward_[at(unit)] ? backward : forward).push_back(unit);
  // Towards later devices the last layers have to go first.
  if (from < to) std::reverse(forward.begin(), forward.end());
  bool any = improve_runs(std::move(forward), to);
  any |= improve_runs(std::move(backward), to);
  return any;
}

void Placement::improve(Deadline deadline) {
  for (bool any = true; any;) {
    any = false;
    for (int from = 0; from < std::ssize(devices_); ++from)
      for (int to = 0; to < std::ssize(devices_); ++to) {
        if (std::chrono::steady_clock::now() > deadline) return;
        if (from != to) any |= improve_pair(from, to);
      }
  }
}

std::vector<Stage> Placement::stages() const {
  std::vector<Stage> stages;
  for (int device = 0; device < std::ssize(devices_); ++device) {
    Stage stage;
    stage.index = static_cast<int>(stages.size());
    stage.owners = {devices_[at(device)].rank};
    for (int unit = 0; unit < std::ssize(device_of_); ++unit)
      if (device_of_[at(unit)] == device)
        for (const LayerWork& work : graph_.order.units[at(unit)].works) stage.layers.push_back(work.layer);
    std::sort(stage.layers.begin(), stage.layers.end());
    if (!stage.layers.empty()) stages.push_back(std::move(stage));
  }
  return stages;
}

}  // namespace

std::vector<Stage> moved(const Profile& profile, const Cluster& cluster, const MsrGraph& graph,
                         const std::vector<Stage>& stages, Deadline deadline) {
  Placement placement(profile, cluster, graph, stages);
  placement.improve(deadline);
  return placement.stages();
}

}  // namespace sluice
