#include "tests/unit/schedule/interpreter.h"

#include <algorithm>
#include <deque>
#include <random>

#include "core/cost_model.h"
#include "core/hash.h"
#include "core/text.h"

namespace sluice::interpreter {
namespace {

struct Fault {
  std::string what;
};

template <typename... Parts>
Symbol symbol(const char* kind, Parts... parts) {
  Fnv1a hash;
  hash.add(kind);
  (hash.add(static_cast<std::int64_t>(parts)), ...);
  return hash.value();
}

Symbol symbol(const char* kind, const std::vector<Symbol>& parts) {
  Fnv1a hash;
  hash.add(kind);
  for (const Symbol part : parts) hash.add(static_cast<std::int64_t>(part));
  return hash.value();
}

/// Tensor (stage = kNone) or gradient that a stage sends up, of one micro-batch.
struct Key {
  TensorId tensor;
  int stage;
  int microbatch;
  auto operator<=>(const Key&) const = default;
};

struct Content {
  Symbol symbol = 0;
  bool in_flight = false;
};

struct Weights {
  Symbol symbol = 0;
  Symbol gradient = 0;
  bool in_flight = false;
  int being_sent = 0;
};

/// The i-th multicast of a group.
struct Call {
  int transfer = kNone;
  int microbatch = kNone;
  const std::vector<Edge>* edges = nullptr;
  std::vector<bool> moved;        // by edge
  std::map<Rank, Symbol> held;    // payload by rank that has it
  std::map<Rank, bool> finished;  // members that have started: has their wait ended?
};

struct RankState {
  std::size_t next = 0;
  std::map<Key, Content> values;
  std::map<LayerId, Weights> weights;
  std::map<int, int> starts;                      // by group: how many
  std::map<std::pair<int, int>, Call*> unwaited;  // by transfer, micro-batch
};

class Machine {
 public:
  Machine(const Plan& plan, const Program& program, std::uint64_t seed)
      : plan_(plan), model_(plan.profile.model), program_(program), random_(seed), ranks_(program.ranks.size()) {
    for (const Group& group : plan.groups) edges_.push_back(multicast_edges(group, plan.cluster));
    for (std::size_t l = 0; l < model_.layers.size(); ++l)
      for (RankState& rank : ranks_) rank.weights[static_cast<int>(l)].symbol = symbol("initial", l);
  }

  Outcome run() {
    try {
      while (step_somewhere()) {
      }
      check_end();
    } catch (const Fault& fault) {
      return {fault.what, {}};
    }
    return {"", final_state()};
  }

 private:
  // --- Interleaving ---

  bool step_somewhere() {
    std::vector<Rank> ready;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (may_step(static_cast<Rank>(r))) ready.push_back(static_cast<Rank>(r));
    std::vector<std::pair<Call*, std::size_t>> movable;
    for (Call* call : active_)
      for (std::size_t e = 0; e < call->moved.size(); ++e)
        if (may_move(*call, e)) movable.emplace_back(call, e);
    const std::size_t choices = ready.size() + movable.size();
    if (choices == 0) return false;
    const std::size_t choice = std::uniform_int_distribution<std::size_t>(0, choices - 1)(random_);
    if (choice < ready.size())
      execute(ready[choice]);
    else
      move(*movable[choice - ready.size()].first, movable[choice - ready.size()].second);
    return true;
  }

  bool may_step(Rank rank) {
    const RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const auto& list = program_.ranks[static_cast<std::size_t>(rank)];
    if (state.next == list.size()) return false;
    const Instruction& instruction = list[state.next];
    if (instruction.op != Op::multicast_wait) return true;
    const auto call = state.unwaited.find({instruction.transfer, instruction.microbatch});
    if (call == state.unwaited.end()) return true;  // to fault when executed
    return passed_on(*call->second, rank);
  }

  static bool passed_on(const Call& call, Rank rank) {
    if (!call.held.contains(rank)) return false;
    for (std::size_t e = 0; e < call.moved.size(); ++e)
      if ((*call.edges)[e].from == rank && !call.moved[e]) return false;
    return true;
  }

  static bool may_move(const Call& call, std::size_t e) {
    const Edge& edge = (*call.edges)[e];
    return !call.moved[e] && call.held.contains(edge.from) && call.finished.contains(edge.to);
  }

  void move(Call& call, std::size_t e) {
    const Edge& edge = (*call.edges)[e];
    call.moved[e] = true;
    call.held[edge.to] = call.held.at(edge.from);
    if (std::all_of(call.moved.begin(), call.moved.end(), [](bool moved) { return moved; }))
      active_.erase(std::find(active_.begin(), active_.end(), &call));
  }

  // --- Instructions ---

  void execute(Rank rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const Instruction& instruction = program_.ranks[static_cast<std::size_t>(rank)][state.next++];
    switch (instruction.op) {
      case Op::load_input:
        return load(state, TensorKind::input, instruction.microbatch);
      case Op::load_labels:
        return load(state, TensorKind::labels, instruction.microbatch);
      case Op::forward:
        forward(state, instruction);
        break;
      case Op::backward:
        backward(state, instruction);
        break;
      case Op::optimizer_step:
        update(state, instruction.stage);
        break;
      case Op::multicast_start:
        return start(rank, instruction);
      case Op::multicast_wait:
        return wait(rank, instruction);
      default:
        throw Fault{"unknown instruction"};
    }
    log_[{rank, instruction.op, instruction.stage}].push_back(instruction.microbatch);
  }

  void load(RankState& state, TensorKind kind, int microbatch) {
    for (std::size_t t = 0; t < model_.tensors.size(); ++t)
      if (model_.tensors[t].kind == kind)
        define(state, {static_cast<int>(t), kNone, microbatch}, {symbol("data", t, microbatch)});
  }

  void forward(RankState& state, const Instruction& instruction) {
    for (const LayerId layer : stage(instruction).layers) {
      std::vector<Symbol> inputs{symbol("forward", layer), weights_to_read(state, layer)};
      for (const TensorId tensor : needs(layer).forward)
        inputs.push_back(fetch(state, {tensor, kNone, instruction.microbatch}));
      for (std::size_t t = 0; t < model_.tensors.size(); ++t)
        if (model_.tensors[t].producer == layer)
          define(state, {static_cast<int>(t), kNone, instruction.microbatch}, {symbol("made", symbol("", inputs), t)});
    }
  }

  void backward(RankState& state, const Instruction& instruction) {
    const std::vector<LayerId>& layers = stage(instruction).layers;
    std::map<TensorId, std::map<LayerId, Symbol>> shares;  // of a tensor's gradient, by the layer that reads it
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      std::vector<Symbol> inputs{symbol("backward", *layer), weights_to_read(state, *layer)};
      for (const auto* reads : {&needs(*layer).backward_input, &needs(*layer).backward_weight})
        for (const TensorId tensor : *reads) inputs.push_back(fetch(state, {tensor, kNone, instruction.microbatch}));
      for (std::size_t t = 0; t < model_.tensors.size(); ++t)
        if (model_.tensors[t].producer == *layer && model_.tensors[t].kind == TensorKind::output)
          inputs.push_back(output_gradient(state, static_cast<int>(t), instruction, shares));
      Weights& weights = state.weights[*layer];
      weights.gradient = symbol("sum", weights.gradient, symbol("", inputs));
      for (const TensorId tensor : needs(*layer).forward)
        if (model_.tensors[static_cast<std::size_t>(tensor)].kind == TensorKind::output)
          shares[tensor][*layer] = symbol("share", symbol("", inputs), tensor);
    }
    for (const auto& [tensor, by_layer] : shares)
      if (!holds(layers, model_.tensors[static_cast<std::size_t>(tensor)].producer))
        define(state, {tensor, instruction.stage, instruction.microbatch}, {sum(by_layer)});
  }

  /// Shares of the stage's own layers, and what each other stage has sent.
  Symbol output_gradient(const RankState& state, TensorId tensor, const Instruction& instruction,
                         std::map<TensorId, std::map<LayerId, Symbol>>& shares) {
    std::vector<Symbol> parts{sum(shares[tensor])};
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& other = plan_.stages[s];
      if (other.work != Work::backward || static_cast<int>(s) == instruction.stage) continue;
      const bool reads = std::any_of(other.layers.begin(), other.layers.end(),
                                     [&](LayerId layer) { return holds(needs(layer).forward, tensor); });
      if (reads) parts.push_back(fetch(state, {tensor, static_cast<int>(s), instruction.microbatch}));
    }
    return symbol("gradient", parts);
  }

  void update(RankState& state, int index) {
    for (const LayerId layer : plan_.stages[static_cast<std::size_t>(index)].layers) {
      Weights& weights = state.weights[layer];
      if (weights.in_flight || weights.being_sent > 0) throw Fault{"weights updated while they travel"};
      weights.symbol = symbol("updated", weights.symbol, weights.gradient);
    }
  }

  // --- Communication ---

  void start(Rank rank, const Instruction& instruction) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const Transfer& transfer = plan_.transfers[static_cast<std::size_t>(instruction.transfer)];
    const Group& group = plan_.groups[static_cast<std::size_t>(transfer.group)];
    if (!holds(group.members, rank)) throw Fault{"started by no member"};
    Call& call = call_at(transfer.group, state.starts[transfer.group]++);
    if (call.transfer == kNone) {
      call.transfer = instruction.transfer;
      call.microbatch = instruction.microbatch;
    }
    if (call.transfer != instruction.transfer || call.microbatch != instruction.microbatch)
      throw Fault{"members start a group's multicasts in different order"};
    if (!state.unwaited.emplace(std::pair(instruction.transfer, instruction.microbatch), &call).second)
      throw Fault{"started twice"};
    call.finished[rank] = false;
    if (rank == group.root)
      call.held[rank] = payload(state, transfer, instruction.microbatch);
    else
      expect(state, transfer, instruction.microbatch);
  }

  static Symbol payload(RankState& state, const Transfer& transfer, int microbatch) {
    if (transfer.payload != Payload::weights) return fetch(state, key(transfer, microbatch));
    Weights& weights = state.weights[transfer.layer];
    if (weights.in_flight) throw Fault{"weights sent while they arrive"};
    ++weights.being_sent;
    return weights.symbol;
  }

  static void expect(RankState& state, const Transfer& transfer, int microbatch) {
    if (transfer.payload != Payload::weights) return define(state, key(transfer, microbatch), {0, true});
    Weights& weights = state.weights[transfer.layer];
    if (weights.in_flight || weights.being_sent > 0) throw Fault{"weights received while they travel"};
    weights.in_flight = true;
  }

  void wait(Rank rank, const Instruction& instruction) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const auto found = state.unwaited.find({instruction.transfer, instruction.microbatch});
    if (found == state.unwaited.end()) throw Fault{"wait without start"};
    Call& call = *found->second;
    state.unwaited.erase(found);
    call.finished[rank] = true;
    const Transfer& transfer = plan_.transfers[static_cast<std::size_t>(instruction.transfer)];
    const bool root = plan_.groups[static_cast<std::size_t>(transfer.group)].root == rank;
    if (transfer.payload != Payload::weights) {
      if (!root) state.values.at(key(transfer, instruction.microbatch)) = {call.held.at(rank), false};
      return;
    }
    Weights& weights = state.weights[transfer.layer];
    if (root) {
      --weights.being_sent;
    } else {
      weights.symbol = call.held.at(rank);
      weights.in_flight = false;
    }
  }

  Call& call_at(int group, int position) {
    std::deque<Call>& calls = calls_[group];
    while (static_cast<int>(calls.size()) <= position) {
      Call& call = calls.emplace_back();
      call.edges = &edges_[static_cast<std::size_t>(group)];
      call.moved.assign(call.edges->size(), false);
      active_.push_back(&call);
    }
    return calls[static_cast<std::size_t>(position)];
  }

  // --- Values ---

  static Key key(const Transfer& transfer, int microbatch) {
    return {transfer.tensor, transfer.payload == Payload::gradient ? transfer.stage : kNone, microbatch};
  }

  static void define(RankState& state, const Key& key, const Content& content) {
    if (!state.values.emplace(key, content).second) throw Fault{text("tensor ", key.tensor, " written twice")};
  }

  static Symbol fetch(const RankState& state, const Key& key) {
    const auto found = state.values.find(key);
    if (found == state.values.end()) throw Fault{text("tensor ", key.tensor, " missing")};
    if (found->second.in_flight) throw Fault{text("tensor ", key.tensor, " in flight")};
    return found->second.symbol;
  }

  /// Layers without parameters read nothing that an update could change.
  Symbol weights_to_read(RankState& state, LayerId layer) const {
    if (plan_.profile.costs[static_cast<std::size_t>(layer)].parameter_bytes == 0) return 0;
    if (state.weights[layer].in_flight) throw Fault{"weights in flight"};
    return state.weights[layer].symbol;
  }

  static Symbol sum(const std::map<LayerId, Symbol>& by_layer) {
    std::vector<Symbol> parts;
    for (const auto& [layer, part] : by_layer) parts.push_back(part);
    return symbol("sum", parts);
  }

  static bool holds(const std::vector<int>& values, int value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  const Stage& stage(const Instruction& instruction) const {
    return plan_.stages[static_cast<std::size_t>(instruction.stage)];
  }
  const LayerNeeds& needs(LayerId layer) const { return model_.needs[static_cast<std::size_t>(layer)]; }

  // --- End ---

  void check_end() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].next < program_.ranks[r].size()) throw Fault{text("rank ", r, " stalls")};
      if (!ranks_[r].unwaited.empty()) throw Fault{text("rank ", r, " has started without waiting")};
    }
    for (std::size_t g = 0; g < plan_.groups.size(); ++g)
      for (const Rank rank : plan_.groups[g].members)
        if (ranks_[static_cast<std::size_t>(rank)].starts[static_cast<int>(g)] !=
            static_cast<int>(calls_[static_cast<int>(g)].size()))
          throw Fault{text("rank ", rank, " lacks a multicast of group ", g)};
  }

  FinalState final_state() {
    FinalState state{.weights = {}, .results = {}, .work_log = std::move(log_)};
    for (const Stage& stage : plan_.stages)
      for (const Rank rank : stage.owners)
        for (const LayerId layer : stage.layers)
          state.weights[{rank, layer}] = ranks_[static_cast<std::size_t>(rank)].weights[layer].symbol;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (const auto& [key, content] : ranks_[r].values)
        if (key.stage == kNone && !read_forward(key.tensor))
          state.results[{static_cast<int>(r), key.tensor, key.microbatch}] = content.symbol;
    return state;
  }

  bool read_forward(TensorId tensor) const {
    return std::any_of(model_.needs.begin(), model_.needs.end(),
                       [&](const LayerNeeds& needs) { return holds(needs.forward, tensor); });
  }

  const Plan& plan_;
  const Model& model_;
  const Program& program_;
  std::mt19937_64 random_;
  std::vector<std::vector<Edge>> edges_;  // by group
  std::vector<RankState> ranks_;
  std::map<int, std::deque<Call>> calls_;  // by group
  std::vector<Call*> active_;
  std::map<std::tuple<Rank, Op, int>, std::vector<int>> log_;
};

}  // namespace

Outcome interpret(const Plan& plan, const Program& program, std::uint64_t seed) {
  return Machine(plan, program, seed).run();
}

}  // namespace sluice::interpreter
