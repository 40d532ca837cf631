#include "core/plan.h"

#include <algorithm>

#include "core/asynchronous.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

void check_range(const std::string& what, int value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most) throw bad_input(text(what, " is ", value, ", expected ", least, " to ", most));
}

void check_index(const std::string& what, int value, std::size_t size) {
  check_range(what, value, 0, static_cast<std::int64_t>(size) - 1);
}

/// Positions may be left out; interpreters make tables by position.
constexpr int kMostPositions = 1'000'000;

void validate_stages(const Plan& plan) {
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const std::string name = text("stage ", i);
    check_range(name + ": index", stage.index, 0, kMostPositions - 1);
    if (stage.layers.empty()) throw bad_input(name + " has no layers");
    if (stage.owners.empty()) throw bad_input(name + " has no owner");
    if (!std::is_sorted(stage.layers.begin(), stage.layers.end())) throw bad_input(name + ": layers are not ascending");
    for (const LayerId layer : stage.layers) check_index(name + ": layer", layer, plan.profile.model.layers.size());
    for (const Rank rank : stage.owners) check_index(name + ": owner", rank, plan.cluster.ranks.size());
  }
}

void validate_groups(const Plan& plan) {
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const Group& group = plan.groups[i];
    const std::string name = text("group ", i);
    for (const Rank rank : group.members) check_index(name + ": member", rank, plan.cluster.ranks.size());
    for (std::size_t m = 1; m < group.members.size(); ++m)
      if (group.members[m] <= group.members[m - 1]) throw bad_input(name + ": members are not ascending");
    if (!is_member(group, group.root)) throw bad_input(text(name, ": root ", group.root, " is not a member"));
  }
}

void validate_transfers(const Plan& plan) {
  for (std::size_t i = 0; i < plan.transfers.size(); ++i) {
    const Transfer& transfer = plan.transfers[i];
    const std::string name = text("transfer ", i);
    check_index(name + ": group", transfer.group, plan.groups.size());
    if (transfer.bytes < 0) throw bad_input(text(name, ": ", transfer.bytes, " bytes"));
    if (!knows(transfer.route.algorithm, collective_of(transfer.payload)))
      throw bad_input(text(name, ": ", to_string(transfer.payload), " cannot travel by algorithm ",
                           to_string(transfer.route.algorithm)));
    if (transfer.route.segment_bytes < 0)
      throw bad_input(text(name, ": segments of ", transfer.route.segment_bytes, " bytes"));
    if (of_layer(transfer.payload)) {
      check_index(name + ": layer", transfer.layer, plan.profile.model.layers.size());
    } else {
      check_index(name + ": tensor", transfer.tensor, plan.profile.model.tensors.size());
      if (transfer.payload == Payload::gradient) check_index(name + ": stage", transfer.stage, plan.stages.size());
    }
  }
}

/// @param relative  micro-batch and version are, to the base of an asynchronous program: no more than two batches and a
/// pipeline away
void validate_instruction(const Plan& plan, const Instruction& instruction, bool relative, const std::string& place) {
  const bool names_stage = is_compute(instruction.op) || instruction.op == Op::optimizer_step;
  const bool names_transfer = instruction.op >= Op::multicast_start && instruction.op <= Op::all_reduce_wait;
  bool has_microbatch = is_compute(instruction.op) || is_load(instruction.op);
  if (names_stage) check_index(place + ": stage", instruction.stage, plan.stages.size());
  if (names_transfer) {
    check_index(place + ": transfer", instruction.transfer, plan.transfers.size());
    has_microbatch = !of_layer(plan.transfers[at(instruction.transfer)].payload);
  }
  if (relative) {
    const std::int64_t reach = 2 * (plan.microbatches + std::ssize(plan.stages)) + plan.receive_ahead + 2;
    check_range(place + ": micro-batch", instruction.microbatch, -reach, plan.microbatches + reach);
    check_range(place + ": version", instruction.version, -reach, plan.microbatches + reach);
  } else if (has_microbatch) {
    check_index(place + ": micro-batch", instruction.microbatch, static_cast<std::size_t>(plan.microbatches));
  }
}

}  // namespace

const char* to_string(Work work) {
  switch (work) {
    case Work::forward:
      return "forward";
    case Work::backward:
      return "backward";
    case Work::backward_input:
      return "backward_input";
    case Work::backward_weight:
      return "backward_weight";
    case Work::recompute:
      return "recompute";
  }
  return "unknown";
}

bool updates_weights(Work work) { return work == Work::backward || work == Work::backward_weight; }

const char* to_string(Payload payload) {
  switch (payload) {
    case Payload::activation:
      return "activation";
    case Payload::gradient:
      return "gradient";
    case Payload::weights:
      return "weights";
    case Payload::weight_gradients:
      return "weight_gradients";
  }
  return "unknown";
}

CollectiveKind collective_of(Payload payload) {
  return payload == Payload::weight_gradients ? CollectiveKind::all_reduce : CollectiveKind::multicast;
}

bool of_layer(Payload payload) { return payload == Payload::weights || payload == Payload::weight_gradients; }

const char* to_string(Op op) {
  switch (op) {
    case Op::load_input:
      return "load_input";
    case Op::load_labels:
      return "load_labels";
    case Op::forward:
      return "forward";
    case Op::backward:
      return "backward";
    case Op::backward_input:
      return "backward_input";
    case Op::backward_weight:
      return "backward_weight";
    case Op::recompute:
      return "recompute";
    case Op::multicast_start:
      return "multicast_start";
    case Op::multicast_wait:
      return "multicast_wait";
    case Op::all_reduce_start:
      return "all_reduce_start";
    case Op::all_reduce_wait:
      return "all_reduce_wait";
    case Op::optimizer_step:
      return "optimizer_step";
  }
  return "unknown";
}

bool is_compute(Op op) { return op >= Op::forward && op <= Op::recompute; }

bool is_load(Op op) { return op == Op::load_input || op == Op::load_labels; }

Op op_of(Work work) {
  switch (work) {
    case Work::forward:
      return Op::forward;
    case Work::backward:
      return Op::backward;
    case Work::backward_input:
      return Op::backward_input;
    case Work::backward_weight:
      return Op::backward_weight;
    case Work::recompute:
      return Op::recompute;
  }
  return Op::forward;
}

const Program& program(const Plan& plan, const std::string& name) {
  for (const Program& candidate : plan.programs)
    if (candidate.name == name) return candidate;
  throw bad_input(text("the plan has no program '", name, "'"));
}

Rank owner(const Stage& stage, int microbatch) {
  return stage.owners[static_cast<std::size_t>(microbatch) % stage.owners.size()];
}

int microbatches_of(int replica, int replicas, int microbatches) {
  return microbatches / replicas + (replica < microbatches % replicas ? 1 : 0);
}

bool owns(Rank rank, const Stage& stage) {
  return std::find(stage.owners.begin(), stage.owners.end(), rank) != stage.owners.end();
}

std::string layer_names(const Plan& plan, const Stage& stage) {
  const auto name = [&](LayerId layer) { return plan.profile.model.layers[at(layer)].name; };
  const std::string first = name(stage.layers.front());
  return stage.layers.size() == 1 ? first : text(first, " to ", name(stage.layers.back()));
}

const std::string& payload_name(const Plan& plan, const Transfer& transfer) {
  const Model& model = plan.profile.model;
  return of_layer(transfer.payload) ? model.layers[at(transfer.layer)].name : model.tensors[at(transfer.tensor)].name;
}

std::uint64_t digest(const Plan& plan) {
  Fnv1a hash;
  const auto add = [&](std::int64_t value) { hash.add(value); };
  add(static_cast<std::int64_t>(fingerprint(plan.profile.model)));
  add(plan.profile.model.microbatch);
  for (const RankSpec& rank : plan.cluster.ranks) add(rank.node);
  hash.add(plan.schedule);
  add(plan.microbatches);
  add(plan.data_reader);
  for (const Stage& stage : plan.stages) {
    add(static_cast<std::int64_t>(stage.work));
    add(stage.index);
    for (const LayerId layer : stage.layers) add(layer);
    add(kNone);
    for (const Rank rank : stage.owners) add(rank);
    add(kNone);
    add(stage.fetches_weights ? 1 : 0);
  }
  for (const Group& group : plan.groups) {
    add(group.root);
    for (const Rank rank : group.members) add(rank);
    add(kNone);
  }
  for (const Transfer& transfer : plan.transfers) {
    add(static_cast<std::int64_t>(transfer.payload));
    add(transfer.tensor);
    add(transfer.stage);
    add(transfer.layer);
    add(transfer.group);
    add(transfer.bytes);
    add(static_cast<std::int64_t>(transfer.route.algorithm));
    add(transfer.route.segment_bytes);
  }
  for (const Program& program : plan.programs) {
    hash.add(program.name);
    for (const auto& list : program.ranks) {
      for (const Instruction& instruction : list) {
        add(static_cast<std::int64_t>(instruction.op));
        add(instruction.stage);
        add(instruction.transfer);
        add(instruction.microbatch);
        add(instruction.version);
      }
      add(kNone);
    }
  }
  return hash.value();
}

void validate(const Plan& plan) {
  validate(plan.profile);
  validate(plan.cluster);
  if (plan.microbatches < 1)
    throw bad_input(text("the plan has ", plan.microbatches, " micro-batches, expected at least 1"));
  check_range("the data reader", plan.data_reader, kNone, std::ssize(plan.cluster.ranks) - 1);
  validate_stages(plan);
  validate_groups(plan);
  validate_transfers(plan);
  for (const Program& program : plan.programs) {
    const bool relative = counts_from_fill(plan, program);
    if (program.ranks.size() != plan.cluster.ranks.size())
      throw bad_input(text("program ", program.name, " has lists for ", program.ranks.size(),
                           " ranks, the cluster has ", plan.cluster.ranks.size()));
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank)
      for (std::size_t i = 0; i < program.ranks[rank].size(); ++i)
        validate_instruction(plan, program.ranks[rank][i], relative,
                             text("program ", program.name, ", rank ", rank, ", instruction ", i));
  }
}

std::string cell(const Plan& plan, const Instruction& instruction) {
  const bool versions = asynchronous(plan);
  const bool whole_step = !versions && instruction.microbatch == kNone;
  const auto version = [&] { return versions ? text("v", instruction.version) : std::string(); };
  const auto stage_cell = [&](const char* letter) {
    const int index = plan.stages[at(instruction.stage)].index;
    return whole_step ? text(letter, index) : text(index, letter, instruction.microbatch, version());
  };
  const auto transfer_cell = [&](const char* sign) {
    const bool weights = plan.transfers[at(instruction.transfer)].payload == Payload::weights;
    return whole_step ? text(sign, "T", instruction.transfer)
                      : text(sign, "T", instruction.transfer, ".", instruction.microbatch, weights ? version() : "");
  };
  switch (instruction.op) {
    case Op::load_input:
      return text("X", instruction.microbatch);
    case Op::load_labels:
      return text("Y", instruction.microbatch);
    case Op::forward:
      return stage_cell("F");
    case Op::backward:
      return stage_cell("B");
    case Op::backward_input:
      return stage_cell("I");
    case Op::backward_weight:
      return stage_cell("W");
    case Op::recompute:
      return stage_cell("R");
    case Op::multicast_start:
    case Op::all_reduce_start:
      return transfer_cell("+");
    case Op::multicast_wait:
    case Op::all_reduce_wait:
      return transfer_cell("-");
    case Op::optimizer_step:
      return stage_cell("U");
  }
  return "?";
}

}  // namespace sluice
