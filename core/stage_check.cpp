#include "core/stage_check.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

using Reason = std::string;  // empty: nothing to object to

std::string name(const Stage& stage) { return text(to_string(stage.work), " stage ", stage.index); }

class StageCheck {
 public:
  explicit StageCheck(const Plan& plan) : plan_(plan), model_(plan.profile.model) {
    split_ = std::any_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
      return stage.work == Work::backward_input || stage.work == Work::backward_weight;
    });
  }

  Reason run() const {
    for (const auto check : {&StageCheck::works, &StageCheck::owners, &StageCheck::coverage, &StageCheck::order,
                             &StageCheck::recomputes, &StageCheck::fetches})
      if (Reason reason = (this->*check)(); !reason.empty()) return reason;
    return {};
  }

 private:
  /// The work that hands gradients from stage to stage.
  [[nodiscard]] Work backward() const { return split_ ? Work::backward_input : Work::backward; }
  [[nodiscard]] const std::string& layer_name(LayerId layer) const { return model_.layers[at(layer)].name; }

  Reason works() const {
    if (!split_) return {};
    if (!plan_.profile.split_backward)
      return "the profile has one time for all of backward: backward_input and backward_weight stages are not possible";
    for (const Stage& stage : plan_.stages)
      if (stage.work == Work::backward)
        return text(name(stage), " is whole, though other stages are backward_input or backward_weight");
    return {};
  }

  Reason owners() const {
    std::set<std::pair<Work, int>> indices;
    for (const Stage& stage : plan_.stages) {
      if (!indices.emplace(stage.work, stage.index).second) return text("there are two stages ", name(stage));
      std::set<Rank> owned;
      for (const Rank rank : stage.owners)
        if (!owned.insert(rank).second) return text("rank ", rank, " owns ", name(stage), " twice");
      if (stage.fetches_weights && stage.work != Work::forward)
        return text(name(stage), " fetches weights, which forward stages alone do");
    }
    return {};
  }

  Reason coverage() const {
    std::vector<Work> works{Work::forward, backward()};
    if (split_) works.push_back(Work::backward_weight);
    for (const Work work : works) {
      std::vector<int> times(model_.layers.size(), 0);
      for (const Stage& stage : plan_.stages)
        if (stage.work == work)
          for (const LayerId layer : stage.layers) ++times[at(layer)];
      for (LayerId layer = 0; layer < std::ssize(times); ++layer)
        if (times[at(layer)] != 1)
          return text("layer ", layer_name(layer), " is in ", times[at(layer)], ' ', to_string(work),
                      " stages, expected exactly one");
    }
    return {};
  }

  [[nodiscard]] std::vector<int> index_by_layer(Work work) const {
    std::vector<int> index(model_.layers.size());
    for (const Stage& stage : plan_.stages)
      if (stage.work == work)
        for (const LayerId layer : stage.layers) index[at(layer)] = stage.index;
    return index;
  }

  Reason order() const {
    for (const Work work : {Work::forward, backward()}) {
      const std::vector<int> index = index_by_layer(work);
      for (LayerId layer = 0; layer < std::ssize(index); ++layer)
        for (const TensorId tensor : model_.needs[at(layer)].forward)
          if (const LayerId producer = model_.tensors[at(tensor)].producer;
              producer != kDataset && index[at(producer)] > index[at(layer)])
            return text("layer ", layer_name(layer), " is in ", to_string(work), " stage ", index[at(layer)],
                        ", but layer ", layer_name(producer), ", which it reads, in the later ", index[at(producer)]);
    }
    return {};
  }

  Reason recomputes() const {
    for (const Stage& stage : plan_.stages) {
      if (stage.work != Work::recompute) continue;
      const auto served = std::find_if(plan_.stages.begin(), plan_.stages.end(), [&](const Stage& other) {
        return other.work == backward() && other.index == stage.index;
      });
      if (served == plan_.stages.end() || served->owners != stage.owners)
        return text(name(stage), " has no ", to_string(backward()), " stage of its index and owners");
      if (std::adjacent_find(stage.layers.begin(), stage.layers.end()) != stage.layers.end())
        return text(name(stage), " has a layer twice");
    }
    return {};
  }

  /// Who runs a layer whose weights are fetched in another work must hold them: it updates the layer.
  Reason fetches() const {
    std::vector<const Stage*> fetching(model_.layers.size()), updating(model_.layers.size());
    for (const Stage& stage : plan_.stages)
      for (const LayerId layer : stage.layers) {
        if (stage.fetches_weights) fetching[at(layer)] = &stage;
        if (updates_weights(stage.work)) updating[at(layer)] = &stage;
      }
    for (const Stage& stage : plan_.stages)
      for (const LayerId layer : stage.layers)
        if (stage.work != Work::forward && fetching[at(layer)] != nullptr)
          for (const Rank rank : stage.owners)
            if (!owns(rank, *updating[at(layer)]))
              return text(name(stage), " runs layer ", layer_name(layer), " on rank ", rank,
                          ", which does not update it, but the weights are fetched for the forward alone");
    return {};
  }

  const Plan& plan_;
  const Model& model_;
  bool split_ = false;
};

}  // namespace

std::string stage_fault(const Plan& plan) { return StageCheck(plan).run(); }

}  // namespace sluice
