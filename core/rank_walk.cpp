#include "core/rank_walk.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

using Reason = std::string;  // empty: nothing to object to

class RankWalk {
 public:
  RankWalk(const Plan& plan, const DataFlow& flow, const Program& program, Rank rank)
      : plan_(plan),
        flow_(flow),
        rank_(rank),
        list_(program.ranks[at(rank)]),
        training_(program.name != "evaluate"),
        microbatches_done_(plan.stages.size(), 0),
        updated_(plan.stages.size(), false),
        weights_(plan.profile.model.layers.size(), Weights::old) {}

  std::optional<Finding> run() {
    for (int i = 0; i < std::ssize(list_); ++i)
      if (Reason reason = execute(list_[at(i)]); !reason.empty()) return Finding{rank_, i, std::move(reason)};
    if (Reason reason = check_end(); !reason.empty())
      return Finding{rank_, static_cast<int>(list_.size()), std::move(reason)};
    return std::nullopt;
  }

 private:
  enum class Weights : char { old, updated, receiving, received };

  Reason execute(const Instruction& instruction) {
    switch (instruction.op) {
      case Op::load_input:
      case Op::load_labels:
        return write(flow_.access(instruction, rank_), true);
      case Op::forward:
      case Op::backward:
        return compute(instruction);
      case Op::multicast_start:
        return start(instruction);
      case Op::multicast_wait:
        return wait(instruction);
      case Op::optimizer_step:
        return update(instruction.stage);
      default:
        return text("instruction ", to_string(instruction.op), " is not supported");
    }
  }

  Reason compute(const Instruction& instruction) {
    const Stage& stage = plan_.stages[at(instruction.stage)];
    const Work work = instruction.op == Op::forward ? Work::forward : Work::backward;
    if (stage.work != work) return text(to_string(instruction.op), " of a ", to_string(stage.work), " stage");
    if (work == Work::backward && !training_) return "backward in a program that only evaluates";
    if (owner(stage, instruction.microbatch) != rank_)
      return text("the stage belongs to rank ", owner(stage, instruction.microbatch));
    int& due = microbatches_done_[at(instruction.stage)];
    if (instruction.microbatch != due)
      return due == plan_.microbatches ? text("all micro-batches of the stage are done")
                                       : text("micro-batch ", due, " of the stage is due");
    ++due;
    if (Reason reason = use_weights(stage); !reason.empty()) return reason;
    const Access access = flow_.access(instruction, rank_);
    if (Reason reason = read(access); !reason.empty()) return reason;
    return write(access, true);
  }

  Reason use_weights(const Stage& stage) const {
    for (const LayerId layer : stage.layers) {
      if (!has_parameters(layer) || weights_[at(layer)] == Weights::old) continue;
      return text(
          "uses the weights of layer ", layer_name(layer),
          weights_[at(layer)] == Weights::receiving ? " while they are being received" : " after they were updated");
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

  Reason start(const Instruction& instruction) {
    const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
    const Group& group = plan_.groups[at(transfer.group)];
    if (!std::binary_search(group.members.begin(), group.members.end(), rank_))
      return text("starts transfer ", instruction.transfer, ", in whose group ", transfer.group, " it is no member");
    const auto call = std::pair(instruction.transfer, instruction.microbatch);
    if (!started_.insert(call).second) return text("starts transfer ", instruction.transfer, " a second time");
    open_.insert(call);
    if (transfer.payload == Payload::weights) return start_weights(transfer.layer, group.root == rank_);
    const Access access = flow_.access(instruction, rank_);
    if (Reason reason = read(access); !reason.empty()) return reason;
    return write(access, false);
  }

  Reason start_weights(LayerId layer, bool root) {
    if (!training_) return "weights travel in a program that only evaluates";
    Weights& weights = weights_[at(layer)];
    if (root && weights != Weights::updated)
      return text("sends the weights of layer ", layer_name(layer), " before they are updated");
    if (!root) weights = Weights::receiving;
    return {};
  }

  Reason wait(const Instruction& instruction) {
    if (open_.erase({instruction.transfer, instruction.microbatch}) == 0)
      return text("waits for transfer ", instruction.transfer, " without having started it");
    const Transfer& transfer = plan_.transfers[at(instruction.transfer)];
    if (plan_.groups[at(transfer.group)].root == rank_) return {};
    if (transfer.payload == Payload::weights)
      weights_[at(transfer.layer)] = Weights::received;
    else
      for (const ValueUse& use : flow_.access(instruction, rank_).reads) value_is_whole_[use] = true;
    return {};
  }

  Reason update(int index) {
    const Stage& stage = plan_.stages[at(index)];
    if (!training_) return "weights are updated in a program that only evaluates";
    if (stage.work != Work::backward) return text("updates the weights of a ", to_string(stage.work), " stage");
    if (stage.owners.front() != rank_) return text("the stage belongs to rank ", stage.owners.front());
    if (updated_[at(index)]) return "updates the stage a second time";
    if (microbatches_done_[at(index)] != plan_.microbatches)
      return text("updates after ", microbatches_done_[at(index)], " of ", plan_.microbatches, " backwards");
    updated_[at(index)] = true;
    for (const LayerId layer : stage.layers) weights_[at(layer)] = Weights::updated;
    return {};
  }

  Reason check_end() const {
    if (!open_.empty()) return text("ends without waiting for transfer ", open_.begin()->first);
    for (int s = 0; s < std::ssize(plan_.stages); ++s) {
      const Stage& stage = plan_.stages[at(s)];
      if (stage.owners.front() != rank_ || (stage.work != Work::forward && !training_)) continue;
      const std::string name = text(to_string(stage.work), " stage ", stage.index);
      if (microbatches_done_[at(s)] != plan_.microbatches)
        return text("ends after ", microbatches_done_[at(s)], " of ", plan_.microbatches, " micro-batches of ", name);
      if (stage.work == Work::backward && !updated_[at(s)]) return text("ends without an update of ", name);
      for (const LayerId layer : stage.layers)
        if (training_ && has_parameters(layer) && weights_[at(layer)] != Weights::updated &&
            weights_[at(layer)] != Weights::received)
          return text("ends without the updated weights of layer ", layer_name(layer));
    }
    return {};
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
  std::vector<int> microbatches_done_;            // by stage
  std::vector<bool> updated_;                     // by stage
  std::vector<Weights> weights_;                  // by layer
  std::map<ValueUse, bool> value_is_whole_;       // false: being received
  std::set<std::pair<int, int>> started_, open_;  // transfer, micro-batch
};

}  // namespace

std::optional<Finding> walk_rank(const Plan& plan, const DataFlow& flow, const Program& program, Rank rank) {
  return RankWalk(plan, flow, program, rank).run();
}

}  // namespace sluice
