#include "optimizer/schedule/lowering.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/asynchronous.h"
#include "core/cost_model.h"
#include "core/fetched_weights.h"
#include "core/index.h"
#include "core/liveness.h"
#include "optimizer/schedule/linear_order.h"
#include "optimizer/schedule/reader_loads.h"

namespace sluice {
namespace {

// Why the result cannot hang. Let G be the linear order of the figure, and run
// the program so: each rank runs ahead as far as starts and loads let it, which
// never block; otherwise the instructions run in the order of G, each after the
// waits in front of it.
//   A value's multicast starts at its root right after the instruction p that
// made it. Each receiver's start directly follows an instruction i with
// G(i) < G(p), or stands at the head of its program. So when p is done, all
// members have started, and the payload can reach everyone at once, relayed or
// not. Every wait stands in front of an instruction w with G(w) > G(p), or at the
// end of its program: a root's because w follows p on the same rank, a
// receiver's because w reads the value, and G puts writing before reading. So no
// wait for a value blocks in this run.
//   What one rank reads from the dataset for all is such a value: its load is an instruction with a place in
// G before all who read it (reader_loads.h).
//   A member starts an all-reduce right after its last backward (or
// backward-weight) of the stage, at the head of its program if it has none (fewer
// micro-batches than replicas), and waits for it in front of the optimizer step,
// which G puts after the last backwards of all members. So all have started.
//   All waits for weights stand at the ends of programs, where nothing else is
// left: every member gets there, having started its part before. Asynchronous ones
// stand in front of the first use like those for values: the update is earlier in G,
// since a forward is as many versions behind as its layer's first position is slots
// behind the last. And their starts follow the receiver's forward of the update's last
// micro-batch, which is before its backward in G.
//   Weights that are fetched start at their root at the head of the program, at a
// receiver there too or right behind the last forward of the stage that it
// fetched for before the previous one. G puts this before every forward that uses
// the weights, at whatever rank: so all members have started when the first of
// these waits for them. Their root waits in front of its optimizer step, which G
// puts after all forwards of the layer, or at the end of its program.
//   What a rank does next depends on its own list alone, starts never block, and
// once a payload can move it stays so until it has. In such a network one run
// that completes proves that all interleavings complete.
//   The members of a group start its collectives in the same order. Multicasts:
// that of G(p), then of the transfer. Where a start stands grows with G(p), at the
// root and at the receivers; weights come last, since a root updates after all
// else it makes, and no receiver starts those of one root before its last use of any.
// (Where old versions make a receive of weights start late, what follows in the group
// starts no earlier.)
// Weights that are fetched have groups of their own, and everywhere start in the
// pipeline's order, in which the generator runs the stages that fetch. Each
// stage's all-reduces have a group of their own: its layers' follow each other
// everywhere in ascending order.

/// Where an instruction goes: in front of the compute instruction `slot`, or at the end.
/// Within a slot starts come first (they must not wait for waits), then loads, then waits.
struct Insertion {
  enum Phase { start, load, wait };
  int slot;
  Phase phase;
  int order;  ///< G of what made the payload
  Instruction instruction;
};

/// What is fetched starts in front of all else at the same place, from a group of its own.
constexpr int kFirstOfAll = std::numeric_limits<int>::min();

class Lowering {
 public:
  Lowering(Plan& plan, const std::vector<std::vector<Instruction>>& lists, std::vector<std::vector<int>> order)
      : plan_(plan), flow_(plan), lists_(lists), order_(std::move(order)), insertions_(lists_.size()) {
    for (int t = 0; t < std::ssize(plan.transfers); ++t) {
      const Transfer& transfer = plan.transfers[at(t)];
      if (transfer.payload == Payload::weight_gradients)
        all_reduce_groups_.emplace(flow_.update_stage(transfer.layer), transfer.group);
      else
        (is_fetched(transfer) ? fetch_group_index_ : group_index_)
            .emplace(plan.groups[at(transfer.group)], transfer.group);
      transfer_index_.emplace(transfer, t);
    }
  }

  Program run(const std::string& name) {
    insert_all();
    Program program{.name = name, .ranks = {}};
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank) program.ranks.push_back(merged(rank, {}).list);
    return program;
  }

  std::vector<LoweredRank> run(const EndlessFigure& figure) {
    versions_.emplace(plan_);
    base_ = figure.base;
    find_forwards();
    insert_all();
    std::vector<LoweredRank> lowered;
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank) lowered.push_back(merged(rank, figure.periods[at(rank)]));
    return lowered;
  }

 private:
  struct Call {
    int transfer;
    int microbatch;
    int order;  // G of what made the payload
    int version = 0;
  };
  using Readers = std::map<Rank, std::set<LayerId>>;  // of weights: rank -> layers
  using GroupIndex = std::map<Group, int>;
  using FirstReads = std::map<Rank, int>;  // rank -> index of the first instruction that reads a value

  void insert_all() {
    find_first_reads();
    find_weights_readers();
    fetch_weights();
    for (const auto& [order, place] : in_order()) {
      const auto [rank, index] = place;
      const Instruction& instruction = lists_[at(rank)][at(index)];
      if (instruction.op == Op::optimizer_step) {
        const Stage& updated = plan_.stages[at(instruction.stage)];
        sum_gradients(updated, rank, index);
        send_weights(updated, rank, index);
      } else if (instruction.op != Op::recompute) {
        for (const ValueUse& use : flow_.access(instruction, rank).writes) send_value(use, rank, index);
      }
    }
  }

  /// Rank and index of every instruction, by G.
  [[nodiscard]] std::map<int, std::pair<Rank, int>> in_order() const {
    std::map<int, std::pair<Rank, int>> places;
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank)
      for (int i = 0; i < std::ssize(lists_[at(rank)]); ++i) places[order_[at(rank)][at(i)]] = {rank, i};
    return places;
  }

  void find_first_reads() {
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank) {
      std::set<std::pair<TensorKind, int>> loaded;
      std::set<ValueUse> recomputed;  // nobody else's is needed any more
      for (int i = 0; i < std::ssize(lists_[at(rank)]); ++i) {
        const Access access = flow_.access(lists_[at(rank)][at(i)], rank);
        for (const ValueUse& use : access.reads) {
          const Tensor& tensor = plan_.profile.model.tensors[at(use.value.tensor)];
          if (tensor.producer != kDataset || plan_.data_reader != kNone) {
            if (!recomputed.contains(use)) first_reads_[use].try_emplace(rank, i);
          } else if (loaded.emplace(tensor.kind, use.microbatch).second) {
            insert_load(rank, i, tensor.kind, use.microbatch);
          }
        }
        if (lists_[at(rank)][at(i)].op == Op::recompute) recomputed.insert(access.writes.begin(), access.writes.end());
      }
    }
  }

  void insert_load(Rank rank, int slot, TensorKind kind, int microbatch) {
    const Op op = kind == TensorKind::input ? Op::load_input : Op::load_labels;
    insertions_[at(rank)].push_back({slot, Insertion::load, 0, {.op = op, .microbatch = microbatch}});
  }

  void send_value(const ValueUse& use, Rank root, int index) {
    const auto found = first_reads_.find(use);
    if (found == first_reads_.end()) return;
    FirstReads readers = found->second;
    readers.erase(root);
    const std::int64_t bytes = plan_.profile.model.tensors[at(use.value.tensor)].bytes;
    multicast({.payload = use.value.payload, .tensor = use.value.tensor, .stage = use.value.stage, .bytes = bytes},
              {.microbatch = use.microbatch}, root, index, readers);
  }

  /// In front of `root`'s optimizer step `index`: its part in the all-reduces over the replicas.
  void sum_gradients(const Stage& updated, Rank rank, int index) {
    if (updated.owners.size() == 1) return;
    const int start_slot = after_last(rank, [&](const Stage& stage) { return &stage == &updated; });
    for (const LayerId layer : updated.layers) {
      const std::int64_t bytes = plan_.profile.costs[at(layer)].parameter_bytes;
      if (bytes == 0) continue;
      const Transfer transfer{
          .payload = Payload::weight_gradients, .layer = layer, .group = all_reduce_group(updated), .bytes = bytes};
      const Call call{index_in(plan_.transfers, transfer_index_, transfer), kNone, order_[at(rank)][at(index)]};
      insert(rank, call, start_slot, index);
    }
  }

  void send_weights(const Stage& updated, Rank root, int index) {
    const Instruction& update = lists_[at(root)][at(index)];
    for (const LayerId layer : updated.layers) {
      FirstReads wait;
      std::map<Rank, int> earliest;
      for (const auto& [rank, layers] : weights_readers_[root])
        if (layers.contains(layer)) {
          wait.emplace(rank, first_use_of_weights(layer, rank, update));
          earliest.emplace(rank, versions_ ? behind_forward(layer, rank, update.microbatch) : weights_slot(root, rank));
        }
      const std::int64_t bytes = plan_.profile.costs[at(layer)].parameter_bytes;
      multicast({.payload = Payload::weights, .layer = layer, .bytes = bytes}, update, root, index, wait, earliest);
    }
  }

  /// Synchronous: in the next program, so that all waits stand at the end of this one.
  [[nodiscard]] int first_use_of_weights(LayerId layer, Rank rank, const Instruction& update) const {
    if (!versions_) return length(rank);
    return forward_of(layer, rank, base_ + versions_->first_microbatch(update.version, layer));
  }

  [[nodiscard]] int behind_forward(LayerId layer, Rank rank, int microbatch) const {
    return std::min(forward_of(layer, rank, microbatch) + 1, length(rank));
  }

  /// Index of the layer's forward of a micro-batch in an endless figure; the list's end if it has none.
  [[nodiscard]] int forward_of(LayerId layer, Rank rank, int microbatch) const {
    const std::vector<int>& places = forwards_[at(flow_.forward_stage(layer))];
    return microbatch < std::ssize(places) ? places[at(microbatch)] : length(rank);
  }

  void find_forwards() {
    forwards_.resize(plan_.stages.size());
    for (const std::vector<Instruction>& list : lists_)
      for (int i = 0; i < std::ssize(list); ++i)
        if (list[at(i)].op == Op::forward) forwards_[at(list[at(i)].stage)].push_back(i);
  }

  /// To the owners of forward stages that fetch them, ahead of need: as soon as there is room for them.
  void fetch_weights() {
    for (int s = 0; s < std::ssize(plan_.stages); ++s) {
      const Stage& stage = plan_.stages[at(s)];
      if (!stage.fetches_weights) continue;
      for (const LayerId layer : stage.layers)
        if (plan_.profile.costs[at(layer)].parameter_bytes > 0) fetch_layer(stage, layer);
    }
  }

  void fetch_layer(const Stage& stage, LayerId layer) {
    const int update = flow_.update_stage(layer);
    std::map<Rank, FirstReads> readers;  // by root
    for (const Rank rank : stage.owners)
      if (const int first = first_run(rank, stage); first != kNone && flow_.fetches(layer, rank))
        readers[weights_server(plan_.stages[at(update)].owners, rank, plan_.cluster)][rank] = first;
    for (const auto& [root, ranks] : readers) {
      Transfer transfer{
          .payload = Payload::weights, .layer = layer, .bytes = plan_.profile.costs[at(layer)].parameter_bytes};
      transfer.group = group_of(root, ranks, fetch_group_index_);
      const Call call{index_in(plan_.transfers, transfer_index_, transfer), kNone, kFirstOfAll + stage.index};
      insert(root, call, 0, slot_of_update(root, update));
      for (const auto& [rank, first] : ranks) insert(rank, call, room_for(stage, rank), first);
    }
  }

  [[nodiscard]] bool is_fetched(const Transfer& transfer) const {
    return transfer.payload == Payload::weights &&
           plan_.stages[at(flow_.forward_stage(transfer.layer))].fetches_weights;
  }

  /// Index of the rank's first forward of the stage, kNone if it runs none.
  [[nodiscard]] int first_run(Rank rank, const Stage& stage) const {
    for (int i = 0; i < length(rank); ++i) {
      const Instruction& instruction = lists_[at(rank)][at(i)];
      if (instruction.op == Op::forward && &plan_.stages[at(instruction.stage)] == &stage) return i;
    }
    return kNone;
  }

  /// Index of the rank's update of the stage; the end in a program without one.
  [[nodiscard]] int slot_of_update(Rank rank, int stage) const {
    for (int i = 0; i < length(rank); ++i) {
      const Instruction& instruction = lists_[at(rank)][at(i)];
      if (instruction.op == Op::optimizer_step && instruction.stage == stage) return i;
    }
    return length(rank);
  }

  /// Behind the last forward of the stage whose weights give way to this one's.
  [[nodiscard]] int room_for(const Stage& stage, Rank rank) const {
    const std::vector<int> stages = fetching_stages(plan_, flow_, rank);
    const auto own = std::find_if(stages.begin(), stages.end(), [&](int s) { return &plan_.stages[at(s)] == &stage; });
    if (own - stages.begin() < kFetchedStagesHeld) return 0;
    const Stage& leaving = plan_.stages[at(*(own - kFetchedStagesHeld))];
    return after_last(rank, [&](const Stage& other) { return &other == &leaving; });
  }

  /// By owner of stages that update: the layers with parameters whose weights it sends to ranks that run them in
  /// any other work and do not fetch them. Each is served by an owner on its own node if there is one, else by the
  /// first owner.
  void find_weights_readers() {
    for (const Stage& stage : plan_.stages)
      for (const LayerId layer : stage.layers) {
        const Stage& updated = plan_.stages[at(flow_.update_stage(layer))];
        if (stage.fetches_weights || plan_.profile.costs[at(layer)].parameter_bytes == 0) continue;
        for (const Rank rank : stage.owners)
          if (!owns(rank, updated))
            weights_readers_[weights_server(updated.owners, rank, plan_.cluster)][rank].insert(layer);
      }
  }

  /// Behind the rank's last use of any weights that `root` sends it.
  int weights_slot(Rank root, Rank rank) {
    const auto [known, is_new] = weights_slots_.try_emplace({root, rank});
    const std::set<LayerId>& layers = weights_readers_[root][rank];
    if (is_new)
      known->second = after_last(rank, [&](const Stage& stage) {
        return std::any_of(stage.layers.begin(), stage.layers.end(), [&](LayerId l) { return layers.contains(l); });
      });
    return known->second;
  }

  /// The root starts right behind instruction `index`, which made the payload, and
  /// waits one compute later, so that the send hides behind it; having loaded the payload, no later
  /// than behind the next load of its kind, so that it never holds more than two for those who are late.
  /// @param named  has its micro-batch and version
  /// @param earliest  where a receiver may start at the earliest, if it matters
  void multicast(Transfer transfer, const Instruction& named, Rank root, int index, const FirstReads& readers,
                 const std::map<Rank, int>& earliest = {}) {
    if (readers.empty()) return;
    transfer.group = group_of(root, readers, group_index_);
    const Call call{index_in(plan_.transfers, transfer_index_, transfer), named.microbatch, order_[at(root)][at(index)],
                    transfer.payload == Payload::weights ? named.version : 0};
    insert(root, call, index + 1, behind_next(root, index));
    for (const auto& [rank, first_read] : readers) {
      const auto not_before = earliest.find(rank);
      insert(rank, call,
             std::max(not_before == earliest.end() ? 0 : not_before->second, receive_slot(rank, call.order)),
             first_read);
    }
  }

  [[nodiscard]] int behind_next(Rank rank, int index) const {
    const std::vector<Instruction>& list = lists_[at(rank)];
    const Op made_by = list[at(index)].op;
    int next = index + 1;
    while (next < length(rank) && !is_compute(list[at(next)].op) && !(is_load(made_by) && list[at(next)].op == made_by))
      ++next;
    return std::min(next + 1, length(rank));
  }

  /// In front of the last instruction before G = `order`, and receive_ahead instructions earlier; loads do not count.
  [[nodiscard]] int receive_slot(Rank rank, int order) const {
    const std::vector<int>& own = order_[at(rank)];
    auto slot = static_cast<int>(std::lower_bound(own.begin(), own.end(), order) - own.begin());
    for (int ahead = 0; slot > 0 && ahead <= plan_.receive_ahead; --slot)
      if (!is_load(lists_[at(rank)][at(slot - 1)].op)) ++ahead;
    return slot;
  }

  /// Behind the rank's last compute of a stage that `counts`; 0 if it has none.
  template <typename Counts>
  [[nodiscard]] int after_last(Rank rank, Counts counts) const {
    const std::vector<Instruction>& list = lists_[at(rank)];
    for (int i = length(rank); i > 0; --i)
      if (is_compute(list[at(i - 1)].op) && counts(plan_.stages[at(list[at(i - 1)].stage)])) return i;
    return 0;
  }

  void insert(Rank rank, const Call& call, int start_slot, int wait_slot) {
    const auto [transfer, microbatch, order, version] = call;
    const bool sums = plan_.transfers[at(transfer)].payload == Payload::weight_gradients;
    const Op start = sums ? Op::all_reduce_start : Op::multicast_start;
    const Op wait = sums ? Op::all_reduce_wait : Op::multicast_wait;
    // Who must wait before it starts to receive weights holds up what the group starts next.
    int& last_start = last_starts_[{rank, plan_.transfers[at(transfer)].group}];
    last_start = std::max(last_start, start_slot);
    insertions_[at(rank)].push_back(
        {last_start, Insertion::start, order, {start, kNone, transfer, microbatch, version}});
    insertions_[at(rank)].push_back({wait_slot, Insertion::wait, order, {wait, kNone, transfer, microbatch, version}});
  }

  [[nodiscard]] int length(Rank rank) const { return static_cast<int>(lists_[at(rank)].size()); }

  int group_of(Rank root, const FirstReads& readers, GroupIndex& index) {
    Group group{.root = root, .members = {root}};
    for (const auto& [rank, first_read] : readers) group.members.push_back(rank);
    std::sort(group.members.begin(), group.members.end());
    return index_in(plan_.groups, index, group);
  }

  /// A row of its own, even if a multicast or another stage has an equal one: the order of starts within is its own.
  int all_reduce_group(const Stage& updated) {
    const auto [known, is_new] =
        all_reduce_groups_.try_emplace(static_cast<int>(&updated - plan_.stages.data()), std::ssize(plan_.groups));
    if (is_new) {
      plan_.groups.push_back({.root = updated.owners.front(), .members = updated.owners});
      std::sort(plan_.groups.back().members.begin(), plan_.groups.back().members.end());
    }
    return known->second;
  }

  template <typename Row>
  static int index_in(std::vector<Row>& table, std::map<Row, int>& index, const Row& row) {
    const auto [known, is_new] = index.try_emplace(row, static_cast<int>(table.size()));
    if (is_new) table.push_back(row);
    return known->second;
  }

  /// @param periods  indices of the figure; a period begins behind the starts in front of its first instruction
  LoweredRank merged(Rank rank, const std::vector<int>& periods) {
    const auto key = [](const Insertion& i) {
      return std::tuple(i.slot, i.phase, i.order, i.instruction.transfer, i.instruction.op);
    };
    std::vector<Insertion>& insertions = insertions_[at(rank)];
    std::sort(insertions.begin(), insertions.end(),
              [&](const Insertion& a, const Insertion& b) { return key(a) < key(b); });
    LoweredRank lowered;
    auto next = insertions.begin();
    auto period = periods.begin();
    const auto insert_up_to = [&](int slot, Insertion::Phase phase) {
      for (; next != insertions.end() && next->slot == slot && next->phase <= phase; ++next)
        lowered.list.push_back(next->instruction);
    };
    for (int slot = 0; slot <= length(rank); ++slot) {
      insert_up_to(slot, Insertion::start);
      if (period != periods.end() && *period == slot) {
        lowered.marks.push_back(static_cast<int>(lowered.list.size()));
        ++period;
      }
      insert_up_to(slot, Insertion::wait);
      if (slot < length(rank)) lowered.list.push_back(lists_[at(rank)][at(slot)]);
    }
    return lowered;
  }

  Plan& plan_;
  const DataFlow flow_;
  const std::vector<std::vector<Instruction>>& lists_;  // the figure's, by rank
  const std::vector<std::vector<int>> order_;           // their G
  GroupIndex group_index_, fetch_group_index_;          // rows of the plan's tables
  std::map<int, int> all_reduce_groups_;                // by stage that updates
  std::map<Transfer, int> transfer_index_;
  std::map<ValueUse, FirstReads> first_reads_;
  std::map<Rank, Readers> weights_readers_;  // by rank that sends
  std::map<std::pair<Rank, Rank>, int> weights_slots_;
  std::map<std::pair<Rank, int>, int> last_starts_;  // by rank and group
  std::vector<std::vector<Insertion>> insertions_;   // by rank
  std::optional<WeightVersions> versions_;           // of an asynchronous schedule
  int base_ = 0;
  std::vector<std::vector<int>> forwards_;  // by stage and micro-batch: where they stand
};

}  // namespace

Program lower(Plan& plan, const std::string& name, const Figure& figure) {
  EndlessFigure ordered{.ranks = figure.ranks, .order = linear_order(plan, figure), .periods = {}};
  insert_loads(plan, ordered);
  return Lowering(plan, ordered.ranks, ordered.order).run(name);
}

std::vector<LoweredRank> lower(Plan& plan, EndlessFigure figure) {
  insert_loads(plan, figure);
  return Lowering(plan, figure.ranks, figure.order).run(figure);
}

}  // namespace sluice
