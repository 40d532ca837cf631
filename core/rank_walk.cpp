#include "core/rank_walk.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

using Reason = std::string;  // empty: nothing to object to

class RankWalk {
 public:
  RankWalk(const Plan& plan, const DataFlow& flow, const Program& program, int microbatches, Rank rank)
      : plan_(plan),
        flow_(flow),
        rank_(rank),
        list_(program.ranks[at(rank)]),
        training_(program.name != "evaluate"),
        microbatches_(microbatches),
        microbatches_done_(plan.stages.size(), 0),
        updated_(plan.stages.size(), false),
        weights_(plan.profile.model.layers.size(), Weights::old),
        fetches_being_sent_(plan.profile.model.layers.size(), 0),
        gradients_(plan.profile.model.layers.size(), Gradients::own) {
    if (training_ && asynchronous(plan)) ring_.emplace(plan);
    for (LayerId layer = 0; layer < std::ssize(weights_); ++layer)
      if (flow.fetches(layer, rank)) weights_[at(layer)] = Weights::absent;
  }

  std::optional<Finding> run() {
    for (int i = 0; i < std::ssize(list_); ++i)
      if (Reason reason = execute(list_[at(i)]); !reason.empty()) return Finding{rank_, i, std::move(reason)};
    if (Reason reason = check_end(); !reason.empty())
      return Finding{rank_, static_cast<int>(list_.size()), std::move(reason)};
    return std::nullopt;
  }

  /// @param oldest  micro-batch, counted from the fill
  RankState state(int microbatch_base, int version_base, int oldest) {
    for (const Instruction& instruction : list_) (void)execute(instruction);
    RankState state;
    state.weights = ring_->state(rank_, version_base);
    for (int s = 0; s < std::ssize(plan_.stages); ++s)
      state.microbatches_done.push_back(microbatches_done_[at(s)] -
                                        (owns(rank_, plan_.stages[at(s)]) ? microbatch_base : 0));
    for (const auto& [use, whole] : value_is_whole_)
      if (use.microbatch >= oldest)
        state.value_is_whole.emplace(ValueUse{use.value, use.microbatch - microbatch_base}, whole);
    for (const auto& [calls, shifted] : {std::pair(&started_, &state.started), std::pair(&open_, &state.open)})
      for (const auto& [transfer, microbatch] : *calls)
        if (microbatch >= oldest) shifted->emplace(transfer, microbatch - microbatch_base);
    return state;
  }

 private:
  /// Layers that the rank fetches are absent at first and then fetched; that none is used after its stage's last
  /// forward follows from the stages (core/stage_check.h). The others are old at first.
  enum class Weights : char { old, updated, receiving, received, absent, fetched };
  enum class Gradients : char { own, being_summed, summed };  // over the replicas

  Reason execute(const Instruction& instruction) {
    switch (instruction.op) {
      case Op::load_input:
      case Op::load_labels:
        return load(instruction);
      case Op::forward:
      case Op::backward:
      case Op::backward_input:
      case Op::backward_weight:
      case Op::recompute:
        return compute(instruction);
      case Op::multicast_start:
      case Op::all_reduce_start:
        return start(instruction);
      case Op::multicast_wait:
      case Op::all_reduce_wait:
        return wait(instruction);
      case Op::optimizer_step:
        return update(instruction);
    }
    return {};
  }

  Reason load(const Instruction& instruction) {
    if (plan_.data_reader != kNone && plan_.data_reader != rank_)
      return text("reads the dataset, but rank ", plan_.data_reader, " does so for all");
    return write(flow_.access(instruction, rank_), true);
  }

  Reason compute(const Instruction& instruction) {
    const Stage& stage = plan_.stages[at(instruction.stage)];
    if (instruction.op != op_of(stage.work))
      return text(to_string(instruction.op), " of a ", to_string(stage.work), " stage");
    if (stage.work != Work::forward && !training_)
      return text(to_string(stage.work), " in a program that only evaluates");
    if (Reason reason = take_turn(instruction, stage); !reason.empty()) return reason;
    if (Reason reason = ring_ ? ring_->use(instruction) : use_weights(stage); !reason.empty()) return reason;
    const Access access = flow_.access(instruction, rank_);
    if (Reason reason = read(access); !reason.empty()) return reason;
    if (stage.work == Work::recompute) return write_again(access);
    if (Reason reason = read_recomputed(instruction.stage, access); !reason.empty()) return reason;
    return write(access, true);
  }

  /// Micro-batches of a stage run at their owners, in ascending order.
  Reason take_turn(const Instruction& instruction, const Stage& stage) {
    if (owner(stage, instruction.microbatch) != rank_)
      return text("the micro-batch belongs to rank ", owner(stage, instruction.microbatch));
    int& done = microbatches_done_[at(instruction.stage)];
    if (done == own_microbatches(stage)) return "all micro-batches of the stage are done";
    const int due = replica(stage) + done * static_cast<int>(stage.owners.size());
    if (instruction.microbatch != due) return text("micro-batch ", due, " of the stage is due");
    ++done;
    return {};
  }

  Reason use_weights(const Stage& stage) const {
    for (const LayerId layer : stage.layers) {
      const Weights weights = weights_[at(layer)];
      if (!has_parameters(layer) || weights == Weights::old || weights == Weights::fetched) continue;
      const char* why = weights == Weights::absent      ? " before it fetches them"
                        : weights == Weights::receiving ? " while they are being received"
                                                        : " after they were updated";
      return text("uses the weights of layer ", layer_name(layer), why);
    }
    return {};
  }

  Reason read(const Access& access) const {
    for (const ValueUse& use : access.reads) {
      const auto found = value_is_whole_.find(use);
      if (found == value_is_whole_.end()) return text("reads ", name(use), ", which is not there");
      if (!found->second) return text("reads ", name(use), ", which is still being received");
    }
    return {};
  }

  Reason write(const Access& access, bool whole) {
    for (const ValueUse& use : access.writes)
      if (!value_is_whole_.emplace(use, whole).second) return text("writes ", name(use), " a second time");
    return {};
  }

  Reason write_again(const Access& access) {
    for (const ValueUse& use : access.writes) {
      bool& whole = value_is_whole_.try_emplace(use, true).first->second;
      if (!whole) return text("computes ", name(use), " again while it is being received");
      recomputed_.insert(use);
    }
    return {};
  }

  /// A stage keeps nothing from the forward that its recompute stage makes.
  Reason read_recomputed(int stage, const Access& access) const {
    for (const ValueUse& use : access.reads)
      if (use.value.payload == Payload::activation && !recomputed_.contains(use) &&
          flow_.is_recomputed(stage, plan_.profile.model.tensors[at(use.value.tensor)].producer))
        return text("reads ", name(use), " before it was recomputed");
    return {};
  }

  Reason start(const Instruction& instruction) {
    const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
    const Group& group = plan_.groups[at(transfer.group)];
    if ((transfer.payload == Payload::weight_gradients) != (instruction.op == Op::all_reduce_start))
      return text(to_string(instruction.op), " of ", to_string(transfer.payload));
    if (!is_member(group, rank_))
      return text("starts transfer ", instruction.transfer, ", in whose group ", transfer.group, " it is no member");
    const auto call = std::pair(instruction.transfer, instruction.microbatch);
    if (!started_.insert(call).second) return text("starts transfer ", instruction.transfer, " a second time");
    open_.insert(call);
    if (transfer.payload == Payload::weight_gradients) return start_all_reduce(transfer.layer);
    if (transfer.payload == Payload::weights)
      return ring_ ? ring_->start(instruction, transfer.layer, group.root == rank_)
                   : start_weights(transfer.layer, group.root == rank_);
    const Access access = flow_.access(instruction, rank_);
    if (Reason reason = read(access); !reason.empty()) return reason;
    return write(access, false);
  }

  Reason start_all_reduce(LayerId layer) {
    if (!training_) return "gradients are summed in a program that only evaluates";
    const int index = flow_.update_stage(layer);
    const int done = microbatches_done_[at(index)], due = own_microbatches(plan_.stages[at(index)]);
    if (done != due)
      return text("sums the gradients of layer ", layer_name(layer), " after ", done, " of ", due, " backwards");
    if (gradients_[at(layer)] != Gradients::own)
      return text("sums the gradients of layer ", layer_name(layer), " a second time");
    gradients_[at(layer)] = Gradients::being_summed;
    return {};
  }

  Reason start_weights(LayerId layer, bool root) {
    if (plan_.stages[at(flow_.forward_stage(layer))].fetches_weights) return start_fetch(layer, root);
    if (!training_) return "weights travel in a program that only evaluates";
    Weights& weights = weights_[at(layer)];
    if (root && weights != Weights::updated)
      return text("sends the weights of layer ", layer_name(layer), " before they are updated");
    if (!root) weights = Weights::receiving;
    return {};
  }

  Reason start_fetch(LayerId layer, bool root) {
    Weights& weights = weights_[at(layer)];
    if (root) {
      if (weights != Weights::old)
        return text("sends the weights of layer ", layer_name(layer), " to be fetched after they were updated");
      ++fetches_being_sent_[at(layer)];
      return {};
    }
    if (weights != Weights::absent && flow_.fetches(layer, rank_))
      return text("fetches the weights of layer ", layer_name(layer), " a second time");
    weights = Weights::receiving;
    return {};
  }

  Reason wait(const Instruction& instruction) {
    const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
    if ((transfer.payload == Payload::weight_gradients) != (instruction.op == Op::all_reduce_wait))
      return text(to_string(instruction.op), " of ", to_string(transfer.payload));
    if (open_.erase({instruction.transfer, instruction.microbatch}) == 0)
      return text("waits for transfer ", instruction.transfer, " without having started it");
    if (transfer.payload == Payload::weight_gradients) {
      gradients_[at(transfer.layer)] = Gradients::summed;
      return {};
    }
    const bool sends = plan_.groups[at(transfer.group)].root == rank_;
    if (ring_ && transfer.payload == Payload::weights) return ring_->wait(instruction, transfer.layer, sends);
    if (sends && transfer.payload == Payload::weights && fetches_being_sent_[at(transfer.layer)] > 0)
      --fetches_being_sent_[at(transfer.layer)];
    if (sends) return {};
    if (transfer.payload == Payload::weights)
      weights_[at(transfer.layer)] = flow_.fetches(transfer.layer, rank_) ? Weights::fetched : Weights::received;
    else
      for (const ValueUse& use : flow_.access(instruction, rank_).reads) value_is_whole_[use] = true;
    return {};
  }

  Reason update(const Instruction& instruction) {
    const int index = instruction.stage;
    const Stage& stage = plan_.stages[at(index)];
    if (!training_) return "weights are updated in a program that only evaluates";
    if (!updates_weights(stage.work)) return text("updates the weights of a ", to_string(stage.work), " stage");
    if (!owns(rank_, stage)) return text("the stage belongs to rank ", stage.owners.front());
    if (ring_) return ring_->update(instruction, microbatches_done_[at(index)]);
    if (updated_[at(index)]) return "updates the stage a second time";
    const int done = microbatches_done_[at(index)], due = own_microbatches(stage);
    if (done != due) return text("updates after ", done, " of ", due, " backwards");
    updated_[at(index)] = true;
    for (const LayerId layer : stage.layers) {
      if (Reason reason = may_update(layer, stage); !reason.empty()) return reason;
      weights_[at(layer)] = Weights::updated;
    }
    return {};
  }

  Reason may_update(LayerId layer, const Stage& stage) const {
    if (!has_parameters(layer)) return {};
    if (weights_[at(layer)] != Weights::old)
      return text("updates the weights of layer ", layer_name(layer), ", which it receives as well");
    if (fetches_being_sent_[at(layer)] > 0)
      return text("updates the weights of layer ", layer_name(layer), " while others fetch them");
    const bool summed = stage.owners.size() == 1 || gradients_[at(layer)] == Gradients::summed;
    if (!summed) return text("updates layer ", layer_name(layer), " before its replicas' gradients are summed");
    return {};
  }

  Reason check_end() const {
    if (!open_.empty()) return text("ends without waiting for transfer ", open_.begin()->first);
    for (int s = 0; s < std::ssize(plan_.stages); ++s) {
      const Stage& stage = plan_.stages[at(s)];
      if (!owns(rank_, stage) || (stage.work != Work::forward && !training_)) continue;
      const std::string name = text(to_string(stage.work), " stage ", stage.index);
      const int done = microbatches_done_[at(s)], due = own_microbatches(stage);
      if (done != due) return text("ends after ", done, " of ", due, " micro-batches of ", name);
      if (ring_) continue;
      if (updates_weights(stage.work) && !updated_[at(s)]) return text("ends without an update of ", name);
      for (const LayerId layer : stage.layers)
        if (training_ && has_parameters(layer) && !flow_.fetches(layer, rank_) &&
            weights_[at(layer)] != Weights::updated && weights_[at(layer)] != Weights::received)
          return text("ends without the updated weights of layer ", layer_name(layer));
    }
    return ring_ ? ring_->at_end(rank_, microbatches_) : Reason();
  }

  /// Which of the stage's owners this rank is.
  [[nodiscard]] int replica(const Stage& stage) const {
    return static_cast<int>(std::find(stage.owners.begin(), stage.owners.end(), rank_) - stage.owners.begin());
  }
  [[nodiscard]] int own_microbatches(const Stage& stage) const {
    return microbatches_of(replica(stage), static_cast<int>(stage.owners.size()), microbatches_);
  }
  [[nodiscard]] bool has_parameters(LayerId layer) const { return plan_.profile.costs[at(layer)].parameter_bytes > 0; }
  [[nodiscard]] const std::string& layer_name(LayerId layer) const {
    return plan_.profile.model.layers[at(layer)].name;
  }
  [[nodiscard]] std::string name(const ValueUse& use) const {
    const std::string& tensor = plan_.profile.model.tensors[at(use.value.tensor)].name;
    const std::string of = text(tensor, " of micro-batch ", use.microbatch);
    if (use.value.payload == Payload::activation) return of;
    return text("the gradient of ", of, " from backward stage ", plan_.stages[at(use.value.stage)].index);
  }

  const Plan& plan_;
  const DataFlow& flow_;
  const Rank rank_;
  const std::vector<Instruction>& list_;
  const bool training_;
  const int microbatches_;
  std::vector<int> microbatches_done_;       // by stage
  std::vector<bool> updated_;                // by stage
  std::vector<Weights> weights_;             // by layer
  std::vector<int> fetches_being_sent_;      // by layer
  std::vector<Gradients> gradients_;         // by layer
  std::map<ValueUse, bool> value_is_whole_;  // false: being received
  std::set<ValueUse> recomputed_;
  std::set<std::pair<int, int>> started_, open_;  // transfer, micro-batch
  std::optional<WeightRing> ring_;                // asynchronous: instead of updated_ and weights_
};

}  // namespace

std::optional<Finding> walk_rank(const Plan& plan, const DataFlow& flow, const Program& program, int microbatches,
                                 Rank rank) {
  return RankWalk(plan, flow, program, microbatches, rank).run();
}

RankState state_after(const Plan& plan, const DataFlow& flow, const Program& program, int steadies, Rank rank) {
  const int base = steadies * plan.microbatches;
  const int oldest = base - steadies_to_settle(plan) * plan.microbatches;
  return RankWalk(plan, flow, program, std::numeric_limits<int>::max(), rank)
      .state(base, steadies * versions_per_steady(plan), oldest);
}

}  // namespace sluice
