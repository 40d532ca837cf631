#include "tests/unit/schedule/interpreter.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <set>

#include "core/cost_model.h"
#include "core/hash.h"
#include "core/text.h"

namespace sluice::interpreter {
namespace {

struct Fault {
  std::string what;
};

/// FNV's last steps hardly mix, so that sums of symbols would collide (splitmix64's do).
Symbol mixed(Symbol symbol) {
  symbol = (symbol ^ (symbol >> 30)) * 0xbf58476d1ce4e5b9ULL;
  symbol = (symbol ^ (symbol >> 27)) * 0x94d049bb133111ebULL;
  return symbol ^ (symbol >> 31);
}

template <typename... Parts>
Symbol symbol(const char* kind, Parts... parts) {
  Fnv1a hash;
  hash.add(kind);
  (hash.add(static_cast<std::int64_t>(parts)), ...);
  return mixed(hash.value());
}

Symbol symbol(const char* kind, const std::vector<Symbol>& parts) {
  Fnv1a hash;
  hash.add(kind);
  for (const Symbol part : parts) hash.add(static_cast<std::int64_t>(part));
  return mixed(hash.value());
}

// --- What layers compute, whoever does it ---

Symbol initial_symbol(LayerId layer) { return symbol("initial", layer); }
Symbol data_symbol(TensorId tensor, int microbatch) { return symbol("data", tensor, microbatch); }
Symbol made_symbol(TensorId tensor, int microbatch, Symbol weights, const std::vector<Symbol>& inputs) {
  return symbol("made", tensor, microbatch, weights, symbol("from", inputs));
}
/// `read`: the gradients of the layer's outputs, then what its needs list.
Symbol weight_share(LayerId layer, int microbatch, const std::vector<Symbol>& read) {
  return symbol("weight share", layer, microbatch, symbol("from", read));
}
Symbol input_share(LayerId layer, TensorId tensor, int microbatch, Symbol weights, const std::vector<Symbol>& read) {
  return symbol("input share", layer, tensor, microbatch, weights, symbol("from", read));
}
Symbol updated_symbol(Symbol weights, Symbol gradient) { return symbol("updated", weights, gradient); }
bool has_parameters(const Profile& profile, LayerId layer) {
  return profile.costs[static_cast<std::size_t>(layer)].parameter_bytes > 0;
}

/// What an asynchronous schedule promises of versions, from the stages and the papers' words alone.
class Lateness {
 public:
  explicit Lateness(const Plan& plan) : plan_(plan), twice_buffered_(plan.schedule == "pipedream-2bw") {
    for (const Stage& stage : plan.stages) indices_.insert(stage.index);
  }
  [[nodiscard]] bool asynchronous() const { return twice_buffered_ || plan_.schedule == "pipedream"; }
  [[nodiscard]] int batch() const { return twice_buffered_ ? plan_.microbatches : 1; }

  /// Micro-batches between a position and the last one.
  [[nodiscard]] int late(int index) const {
    return static_cast<int>(std::distance(indices_.find(index), indices_.end())) - 1;
  }
  [[nodiscard]] int late_layer(LayerId layer) const {
    int most = 0;
    for (const Stage& stage : plan_.stages)
      if (std::find(stage.layers.begin(), stage.layers.end(), layer) != stage.layers.end())
        most = std::max(most, late(stage.index));
    return most;
  }
  [[nodiscard]] int buffers(LayerId layer) const { return twice_buffered_ ? 2 : late_layer(layer) + 1; }

  /// Of a layer's weights, by a micro-batch.
  [[nodiscard]] int version(LayerId layer, int microbatch) const {
    return std::max(0, twice_buffered_ ? microbatch / plan_.microbatches - 1 : microbatch - late_layer(layer));
  }
  /// Likewise, given the version that an instruction names.
  [[nodiscard]] int version(LayerId layer, const Instruction& instruction) const {
    const int index = plan_.stages[static_cast<std::size_t>(instruction.stage)].index;
    return std::max(0, instruction.version - (twice_buffered_ ? 0 : late_layer(layer) - late(index)));
  }

 private:
  const Plan& plan_;
  bool twice_buffered_;
  std::set<int> indices_;
};

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
  bool recomputed = false;
};

struct Weights {
  Symbol symbol = 0;
  bool missing = false;  // not fetched yet, or dropped
  bool dropped = false;
  Symbol gradient = 0;  // a sum, the order of whose parts does not matter
  bool in_flight = false;
  bool being_summed = false;
  bool updated = false;
  int being_sent = 0;

  std::map<int, Symbol> versions;  // asynchronous: those that are held
  std::set<int> arriving;          // asynchronous
  std::map<int, int> sends_of;     // asynchronous: by version
};

/// The i-th collective of a group.
struct Call {
  int transfer = kNone;
  int microbatch = kNone;
  int version = 0;
  const std::vector<Move>* moves = nullptr;
  std::vector<bool> moved;
  std::map<Rank, Symbol> held;    // payload by rank that has all of it; all-reduce: each member's part
  std::map<Rank, bool> finished;  // members that have started: has their wait ended?
};

struct RankState {
  std::size_t next = 0;
  std::map<Key, Content> values;
  std::map<LayerId, Weights> weights;
  std::map<int, int> starts;                      // by group: how many
  std::map<std::pair<int, int>, Call*> unwaited;  // by transfer, micro-batch
  std::map<int, int> last_backward, updates;      // by stage
};

class Machine {
 public:
  Machine(const Plan& plan, const Program& program, std::uint64_t seed)
      : plan_(plan),
        model_(plan.profile.model),
        program_(program),
        random_(seed),
        made_(tensors_by_producer(plan.profile.model)),
        lateness_(plan),
        late_(lateness_.asynchronous() && program.name != "evaluate"),
        ranks_(program.ranks.size()) {
    for (const Transfer& transfer : plan.transfers)
      moves_.push_back(multicast_moves(plan.groups[static_cast<std::size_t>(transfer.group)], transfer.route,
                                       transfer.bytes, plan.cluster));
    for (std::size_t l = 0; l < model_.layers.size(); ++l)
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        Weights& weights = ranks_[r].weights[static_cast<int>(l)];
        weights.symbol = weights.versions[0] = initial_symbol(static_cast<int>(l));
        weights.missing = fetches(static_cast<Rank>(r), static_cast<LayerId>(l));
      }
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
      for (std::size_t m = 0; m < call->moved.size(); ++m)
        if (may_move(*call, m)) movable.emplace_back(call, m);
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
    if (instruction.op != Op::multicast_wait && instruction.op != Op::all_reduce_wait) return true;
    const auto call = state.unwaited.find({instruction.transfer, instruction.microbatch});
    if (call == state.unwaited.end()) return true;  // to fault when executed
    return sums(instruction) ? call->second->held.size() == group(instruction).members.size()
                             : passed_on(*call->second, rank);
  }

  static bool passed_on(const Call& call, Rank rank) {
    if (!call.held.contains(rank)) return false;
    for (std::size_t m = 0; m < call.moved.size(); ++m)
      if ((*call.moves)[m].from == rank && !call.moved[m]) return false;
    return true;
  }

  bool may_move(const Call& call, std::size_t m) const {
    const Move& move = (*call.moves)[m];
    return !call.moved[m] && call.finished.contains(move.from) && call.finished.contains(move.to) &&
           (move.from == root(call) || has(call, move.from, move.offset, move.bytes));
  }

  /// Each byte comes once; of no bytes, the message that says so must have come.
  static bool has(const Call& call, Rank rank, std::int64_t offset, std::int64_t bytes) {
    std::int64_t here = 0;
    bool told = false;
    for (std::size_t m = 0; m < call.moved.size(); ++m) {
      const Move& move = (*call.moves)[m];
      if (!call.moved[m] || move.to != rank) continue;
      here +=
          std::max<std::int64_t>(0, std::min(offset + bytes, move.target + move.bytes) - std::max(offset, move.target));
      told = told || move.target == offset;
    }
    return here == bytes && (bytes > 0 || told);
  }

  void move(Call& call, std::size_t m) {
    const Move& move = (*call.moves)[m];
    const Transfer& transfer = plan_.transfers[static_cast<std::size_t>(call.transfer)];
    call.moved[m] = true;
    if (has(call, move.to, 0, transfer.bytes)) call.held[move.to] = call.held.at(root(call));
    if (std::all_of(call.moved.begin(), call.moved.end(), [](bool moved) { return moved; }))
      active_.erase(std::find(active_.begin(), active_.end(), &call));
  }

  // --- Instructions ---

  void execute(Rank rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const Instruction& instruction = program_.ranks[static_cast<std::size_t>(rank)][state.next++];
    switch (instruction.op) {
      case Op::load_input:
        return load(rank, TensorKind::input, instruction.microbatch);
      case Op::load_labels:
        return load(rank, TensorKind::labels, instruction.microbatch);
      case Op::forward:
      case Op::recompute:
        forward(state, instruction);
        drop_weights(rank, instruction);
        break;
      case Op::backward:
      case Op::backward_input:
      case Op::backward_weight:
        backward(state, instruction);
        break;
      case Op::optimizer_step:
        if (late_)
          make_version(state, instruction);
        else
          update(state, instruction.stage);
        break;
      case Op::multicast_start:
      case Op::all_reduce_start:
        return start(rank, instruction);
      case Op::multicast_wait:
      case Op::all_reduce_wait:
        return wait(rank, instruction);
      default:
        throw Fault{"unknown instruction"};
    }
    log_[{rank, instruction.op, instruction.stage}].push_back(instruction.microbatch);
  }

  void load(Rank rank, TensorKind kind, int microbatch) {
    if (plan_.data_reader != kNone && plan_.data_reader != rank) throw Fault{"has no dataset to read"};
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    for (std::size_t t = 0; t < model_.tensors.size(); ++t)
      if (model_.tensors[t].kind == kind)
        define(state, {static_cast<int>(t), kNone, microbatch}, {data_symbol(static_cast<int>(t), microbatch)});
  }

  void forward(RankState& state, const Instruction& instruction) {
    const bool again = instruction.op == Op::recompute;
    for (const LayerId layer : stage(instruction).layers) {
      std::vector<Symbol> inputs;
      for (const TensorId tensor : needs(layer).forward)
        inputs.push_back(fetch(state, {tensor, kNone, instruction.microbatch}));
      for (const TensorId t : made_by(layer)) {
        const Key key{t, kNone, instruction.microbatch};
        const Symbol made = made_symbol(t, instruction.microbatch, weights_to_read(state, layer, instruction), inputs);
        if (again && state.values.contains(key)) (void)fetch(state, key);  // faults while it is in flight
        if (again) state.values[key] = {made, false, true};
        if (!again) define(state, key, {made});
      }
    }
  }

  /// Nobody keeps fetched weights beyond the last of his micro-batches.
  void drop_weights(Rank rank, const Instruction& instruction) {
    const Stage& own = stage(instruction);
    if (instruction.op != Op::forward || !holds(own.owners, rank)) return;
    int last = plan_.microbatches - 1;
    while (last > instruction.microbatch && owner(own, last) != rank) --last;
    if (instruction.microbatch != last) return;
    for (const LayerId layer : own.layers)
      if (fetches(rank, layer)) {
        Weights& weights = ranks_[static_cast<std::size_t>(rank)].weights[layer];
        weights.missing = weights.dropped = true;
      }
  }

  [[nodiscard]] bool fetches(Rank rank, LayerId layer) const {
    bool fetches = false;
    for (const Stage& stage : plan_.stages) {
      if (!holds(stage.layers, layer) || !holds(stage.owners, rank)) continue;
      if (stage.work == Work::backward || stage.work == Work::backward_weight) return false;
      fetches = fetches || stage.fetches_weights;
    }
    return fetches;
  }

  void backward(RankState& state, const Instruction& instruction) {
    const Stage& own = stage(instruction);
    state.last_backward[instruction.stage] = instruction.microbatch;
    std::map<TensorId, Symbol> shares;  // own part of a tensor's gradient
    for (auto layer = own.layers.rbegin(); layer != own.layers.rend(); ++layer) {
      std::vector<Symbol> gradients;
      for (const TensorId t : made_by(*layer))
        if (is_output(t)) gradients.push_back(shares[t] + received_gradient(state, t, instruction));
      const auto read = [&](const std::vector<TensorId>& tensors) {
        std::vector<Symbol> symbols = gradients;
        for (const TensorId tensor : tensors) symbols.push_back(fetch_for(state, instruction, tensor));
        return symbols;
      };
      if (own.work != Work::backward_input) {
        Weights& weights = state.weights[*layer];
        if (weights.being_summed) throw Fault{"gradient added to while it is being summed"};
        weights.gradient += weight_share(*layer, instruction.microbatch, read(needs(*layer).backward_weight));
      }
      if (own.work == Work::backward_weight) continue;
      const std::vector<Symbol> inputs = read(needs(*layer).backward_input);
      const Symbol weights = weights_to_read(state, *layer, instruction);
      for (const TensorId tensor : needs(*layer).forward)
        if (is_output(tensor)) shares[tensor] += input_share(*layer, tensor, instruction.microbatch, weights, inputs);
    }
    for (const auto& [tensor, share] : shares)
      if (reads(own, tensor) && (own.work == Work::backward_input || !holds(own.layers, producer(tensor))))
        define(state, {tensor, instruction.stage, instruction.microbatch}, {share});
  }

  /// What each other stage has sent.
  Symbol received_gradient(const RankState& state, TensorId tensor, const Instruction& instruction) {
    Symbol sum = 0;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const Stage& other = plan_.stages[s];
      if (other.work != Work::backward && other.work != Work::backward_input) continue;
      if (static_cast<int>(s) != instruction.stage && reads(other, tensor))
        sum += fetch(state, {tensor, static_cast<int>(s), instruction.microbatch});
    }
    return sum;
  }

  /// A stage that has a recompute stage reads what that makes, not what the forward left.
  Symbol fetch_for(const RankState& state, const Instruction& instruction, TensorId tensor) {
    const Key key{tensor, kNone, instruction.microbatch};
    const Stage& own = stage(instruction);
    for (const Stage& other : plan_.stages)
      if (own.work != Work::backward_weight && other.work == Work::recompute && other.index == own.index &&
          holds(other.layers, producer(tensor)) && state.values.contains(key) && !state.values.at(key).recomputed)
        throw Fault{text("tensor ", tensor, " is not recomputed")};
    return fetch(state, key);
  }

  void update(RankState& state, int index) {
    for (const LayerId layer : plan_.stages[static_cast<std::size_t>(index)].layers) {
      Weights& weights = state.weights[layer];
      if (weights.in_flight || weights.being_sent > 0) throw Fault{"weights updated while they travel"};
      if (weights.being_summed) throw Fault{"weights updated while their gradients are being summed"};
      weights.symbol = updated_symbol(weights.symbol, weights.gradient);
      weights.updated = true;
    }
  }

  void make_version(RankState& state, const Instruction& step) {
    const auto last = state.last_backward.find(step.stage);
    if (last == state.last_backward.end() || last->second != step.microbatch)
      throw Fault{"update names another micro-batch than the last"};
    if (step.version != ++state.updates[step.stage]) throw Fault{"update makes another version than the next"};
    if ((step.microbatch + 1) % lateness_.batch() != 0) throw Fault{"update within a batch"};
    for (const LayerId layer : stage(step).layers) {
      Weights& weights = state.weights[layer];
      const Symbol made = updated_symbol(newest(weights), weights.gradient);
      if (has_parameters(plan_.profile, layer)) replace_oldest(weights, layer, step.version, made);
      weights.gradient = 0;
    }
  }

  static Symbol newest(const Weights& weights) { return weights.versions.rbegin()->second; }

  void replace_oldest(Weights& weights, LayerId layer, int version, Symbol symbol) const {
    if (version != weights.versions.rbegin()->first + 1) throw Fault{"versions out of order"};
    const int oldest = version - lateness_.buffers(layer);
    if (weights.arriving.contains(oldest) || weights.sends_of[oldest] > 0)
      throw Fault{"version replaced while it travels"};
    weights.versions.erase(oldest);
    weights.versions[version] = symbol;
  }

  // --- Communication ---

  void start(Rank rank, const Instruction& instruction) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const Transfer& transfer = plan_.transfers[static_cast<std::size_t>(instruction.transfer)];
    const Group& group = plan_.groups[static_cast<std::size_t>(transfer.group)];
    if (!holds(group.members, rank)) throw Fault{"started by no member"};
    if (sums(instruction) != (instruction.op == Op::all_reduce_start)) throw Fault{"another kind of collective"};
    Call& call = call_at(transfer.group, state.starts[transfer.group]++);
    if (call.transfer == kNone) {
      call.transfer = instruction.transfer;
      call.microbatch = instruction.microbatch;
      call.version = instruction.version;
      call.moves = &moves_[static_cast<std::size_t>(instruction.transfer)];
      call.moved.assign(sums(instruction) ? 0 : call.moves->size(), false);
      if (!sums(instruction)) active_.push_back(&call);
    }
    if (call.transfer != instruction.transfer || call.microbatch != instruction.microbatch)
      throw Fault{"members start a group's multicasts in different order"};
    const bool version = late_ && transfer.payload == Payload::weights;
    if (version && call.version != instruction.version) throw Fault{"members name different versions"};
    if (!state.unwaited.emplace(std::pair(instruction.transfer, instruction.microbatch), &call).second)
      throw Fault{"started twice"};
    call.finished[rank] = false;
    if (sums(instruction)) {
      Weights& weights = state.weights[transfer.layer];
      if (weights.being_summed) throw Fault{"gradient summed twice at once"};
      if (weights.updated) throw Fault{"gradient summed after the update"};
      weights.being_summed = true;
      call.held[rank] = weights.gradient;
    } else if (version) {
      start_version(state.weights[transfer.layer], transfer.layer, call, rank, rank == group.root);
    } else if (rank == group.root)
      call.held[rank] = payload(state, transfer, instruction.microbatch);
    else
      expect(state, transfer, instruction.microbatch);
  }

  void start_version(Weights& weights, LayerId layer, Call& call, Rank rank, bool root) {
    if (!root) {
      replace_oldest(weights, layer, call.version, 0);
      weights.arriving.insert(call.version);
      return;
    }
    if (!weights.versions.contains(call.version) || weights.arriving.contains(call.version))
      throw Fault{"sends a version that it does not hold"};
    ++weights.sends_of[call.version];
    call.held[rank] = weights.versions.at(call.version);
  }

  static Symbol payload(RankState& state, const Transfer& transfer, int microbatch) {
    if (transfer.payload != Payload::weights) return fetch(state, key(transfer, microbatch));
    Weights& weights = state.weights[transfer.layer];
    if (weights.in_flight || weights.missing) throw Fault{"weights sent that are not there"};
    ++weights.being_sent;
    return weights.symbol;
  }

  static void expect(RankState& state, const Transfer& transfer, int microbatch) {
    if (transfer.payload != Payload::weights) return define(state, key(transfer, microbatch), {0, true});
    Weights& weights = state.weights[transfer.layer];
    if (weights.in_flight || weights.being_sent > 0) throw Fault{"weights received while they travel"};
    if (weights.dropped) throw Fault{"weights fetched that nobody needs any more"};
    weights.in_flight = true;
  }

  void wait(Rank rank, const Instruction& instruction) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const auto found = state.unwaited.find({instruction.transfer, instruction.microbatch});
    if (found == state.unwaited.end()) throw Fault{"wait without start"};
    if (sums(instruction) != (instruction.op == Op::all_reduce_wait)) throw Fault{"another kind of collective"};
    Call& call = *found->second;
    state.unwaited.erase(found);
    call.finished[rank] = true;
    const Transfer& transfer = plan_.transfers[static_cast<std::size_t>(instruction.transfer)];
    if (sums(instruction)) {
      Weights& weights = state.weights[transfer.layer];
      weights.being_summed = false;
      weights.gradient = 0;
      for (const auto& [member, part] : call.held) weights.gradient += part;
      return;
    }
    const bool root = group(instruction).root == rank;
    if (transfer.payload != Payload::weights) {
      if (!root) state.values.at(key(transfer, instruction.microbatch)) = {call.held.at(rank), false};
      return;
    }
    Weights& weights = state.weights[transfer.layer];
    if (late_) {
      if (call.version != instruction.version) throw Fault{"waits for another version"};
      if (root)
        --weights.sends_of[call.version];
      else
        weights.versions.at(call.version) = call.held.at(rank);
      weights.arriving.erase(call.version);
    } else if (root) {
      --weights.being_sent;
    } else {
      weights.symbol = call.held.at(rank);
      weights.in_flight = weights.missing = false;
    }
  }

  Call& call_at(int group, int position) {
    std::deque<Call>& calls = calls_[group];
    while (static_cast<int>(calls.size()) <= position) calls.emplace_back();
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
  Symbol weights_to_read(RankState& state, LayerId layer, const Instruction& instruction) const {
    if (!has_parameters(plan_.profile, layer)) return 0;
    if (late_) {
      const Weights& weights = state.weights[layer];
      const int version = lateness_.version(layer, instruction);
      // Even where nobody notices: a first layer's backward makes no gradient that its weights are in.
      if (version != lateness_.version(layer, instruction.microbatch)) throw Fault{"another version than promised"};
      if (!weights.versions.contains(version)) throw Fault{text("version ", version, " missing")};
      if (weights.arriving.contains(version)) throw Fault{"version in flight"};
      return weights.versions.at(version);
    }
    if (state.weights[layer].in_flight) throw Fault{"weights in flight"};
    if (state.weights[layer].missing) throw Fault{"weights missing"};
    if (state.weights[layer].symbol != initial_symbol(layer)) throw Fault{"weights of the next step"};
    return state.weights[layer].symbol;
  }

  static bool holds(const std::vector<int>& values, int value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  const Stage& stage(const Instruction& instruction) const {
    return plan_.stages[static_cast<std::size_t>(instruction.stage)];
  }
  [[nodiscard]] const Group& group(const Instruction& instruction) const {
    const int index = plan_.transfers[static_cast<std::size_t>(instruction.transfer)].group;
    return plan_.groups[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] Rank root(const Call& call) const {
    const int index = plan_.transfers[static_cast<std::size_t>(call.transfer)].group;
    return plan_.groups[static_cast<std::size_t>(index)].root;
  }
  [[nodiscard]] bool sums(const Instruction& instruction) const {
    return plan_.transfers[static_cast<std::size_t>(instruction.transfer)].payload == Payload::weight_gradients;
  }
  [[nodiscard]] bool reads(const Stage& stage, TensorId tensor) const {
    return std::any_of(stage.layers.begin(), stage.layers.end(),
                       [&](LayerId layer) { return holds(needs(layer).forward, tensor); });
  }
  [[nodiscard]] LayerId producer(TensorId tensor) const {
    return model_.tensors[static_cast<std::size_t>(tensor)].producer;
  }
  [[nodiscard]] bool is_output(TensorId tensor) const {
    return model_.tensors[static_cast<std::size_t>(tensor)].kind == TensorKind::output;
  }
  [[nodiscard]] std::vector<TensorId> made_by(LayerId layer) const { return made_[static_cast<std::size_t>(layer)]; }
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
          throw Fault{text("rank ", rank, " lacks a collective of group ", g)};
  }

  FinalState final_state() {
    FinalState state{.weights = {}, .results = {}, .work_log = std::move(log_)};
    for (const Stage& stage : plan_.stages)
      for (const Rank rank : stage.owners)
        for (const LayerId layer : stage.layers)
          if (!fetches(rank, layer))
            state.weights[{rank, layer}] = late_ ? newest(ranks_[static_cast<std::size_t>(rank)].weights[layer])
                                                 : ranks_[static_cast<std::size_t>(rank)].weights[layer].symbol;
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
  std::vector<std::vector<TensorId>> made_;  // by layer
  std::vector<std::vector<Move>> moves_;     // by transfer, as of a multicast
  const Lateness lateness_;
  const bool late_;
  std::vector<RankState> ranks_;
  std::map<int, std::deque<Call>> calls_;  // by group
  std::vector<Call*> active_;
  std::map<std::tuple<Rank, Op, int>, std::vector<int>> log_;
};

/// Forward and backward of one micro-batch of the whole network.
class Reference {
 public:
  Reference(const Profile& profile, int microbatch, std::function<Symbol(LayerId)> weights = initial_symbol)
      : profile_(profile),
        model_(profile.model),
        made_(tensors_by_producer(model_)),
        microbatch_(microbatch),
        weights_(std::move(weights)) {
    for (std::size_t t = 0; t < model_.tensors.size(); ++t)
      if (model_.tensors[t].producer == kDataset)
        values_[static_cast<int>(t)] = data_symbol(static_cast<int>(t), microbatch);
  }

  /// Adds the micro-batch's part to each layer's weight gradient.
  void add_to(std::map<LayerId, Symbol>& gradients) {
    const int layers = static_cast<int>(model_.layers.size());
    for (LayerId layer = 0; layer < layers; ++layer)
      for (const TensorId t : made_[static_cast<std::size_t>(layer)])
        values_[t] = made_symbol(t, microbatch_, weights(layer), read(needs(layer).forward, {}));
    for (LayerId layer = layers - 1; layer >= 0; --layer) {
      std::vector<Symbol> outgoing;
      for (const TensorId t : made_[static_cast<std::size_t>(layer)])
        if (is_output(t)) outgoing.push_back(gradients_[t]);
      gradients[layer] += weight_share(layer, microbatch_, read(needs(layer).backward_weight, outgoing));
      for (const TensorId t : needs(layer).forward)
        if (is_output(t))
          gradients_[t] +=
              input_share(layer, t, microbatch_, weights(layer), read(needs(layer).backward_input, outgoing));
    }
  }

 private:
  std::vector<Symbol> read(const std::vector<TensorId>& tensors, std::vector<Symbol> symbols) {
    for (const TensorId tensor : tensors) symbols.push_back(values_.at(tensor));
    return symbols;
  }
  [[nodiscard]] Symbol weights(LayerId layer) const { return has_parameters(profile_, layer) ? weights_(layer) : 0; }
  [[nodiscard]] const LayerNeeds& needs(LayerId layer) const { return model_.needs[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] bool is_output(TensorId tensor) const {
    return model_.tensors[static_cast<std::size_t>(tensor)].kind == TensorKind::output;
  }

  const Profile& profile_;
  const Model& model_;
  std::vector<std::vector<TensorId>> made_;
  int microbatch_;
  std::function<Symbol(LayerId)> weights_;
  std::map<TensorId, Symbol> values_, gradients_;
};

}  // namespace

std::map<LayerId, Symbol> expected_weights(const Profile& profile, int microbatches) {
  std::map<LayerId, Symbol> gradients;
  for (int m = 0; m < microbatches; ++m) Reference(profile, m).add_to(gradients);
  std::map<LayerId, Symbol> weights;
  for (const auto& [layer, gradient] : gradients)
    if (has_parameters(profile, layer)) weights[layer] = updated_symbol(initial_symbol(layer), gradient);
  return weights;
}

std::map<LayerId, Symbol> expected_late_weights(const Plan& plan, int microbatches) {
  const Lateness lateness(plan);
  std::map<LayerId, std::vector<Symbol>> versions;
  for (LayerId layer = 0; layer < std::ssize(plan.profile.model.layers); ++layer)
    if (has_parameters(plan.profile, layer)) versions[layer] = {initial_symbol(layer)};
  std::map<LayerId, Symbol> gradients;
  for (int m = 0; m < microbatches; ++m) {
    const auto weights = [&](LayerId layer) {
      return versions[layer].at(static_cast<std::size_t>(lateness.version(layer, m)));
    };
    Reference(plan.profile, m, weights).add_to(gradients);
    if ((m + 1) % lateness.batch() != 0) continue;
    for (auto& [layer, known] : versions) known.push_back(updated_symbol(known.back(), gradients[layer]));
    gradients.clear();
  }
  std::map<LayerId, Symbol> last;
  for (const auto& [layer, known] : versions) last[layer] = known.back();
  return last;
}

Outcome interpret(const Plan& plan, const Program& program, std::uint64_t seed) {
  return Machine(plan, program, seed).run();
}

}  // namespace sluice::interpreter
