#include "optimizer/schedule/lowering.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/index.h"
#include "core/liveness.h"
#include "optimizer/schedule/linear_order.h"

namespace sluice {
namespace {

// Why the result cannot hang. Let G be the linear order of the figure, and run
// the program so: each rank runs ahead as far as starts and loads let it, which
// never block; otherwise the instructions run in the order of G, each after the
// waits in front of it.
//   A multicast's root starts right after the instruction p that made the
// payload. Each receiver's start directly follows an instruction i with
// G(i) < G(p), or stands at the head of its program. So when p is done, all
// members have started, and the payload can reach everyone at once, relayed or
// not.
//   Every wait stands in front of an instruction w with G(w) > G(p), or at the
// end of its program: a root's because w follows p on the same rank, a
// receiver's because w reads the value, and G puts writing before reading. So no
// wait of this run blocks.
//   What a rank does next depends on its own list alone, starts never block, and
// once a payload can move it stays so until it has. In such a network one run
// that completes proves that all interleavings complete.
//   The members of a group start its multicasts in the same order: that of G(p),
// then of the transfer. Where a start stands grows with G(p), at the root and at
// the receivers; weights come last, since a root updates after all else it makes.

/// Where an instruction goes: in front of the compute instruction `slot`, or at the end.
/// Within a slot starts come first (they must not wait for waits), then loads, then waits.
struct Insertion {
  enum Phase { start, load, wait };
  int slot;
  Phase phase;
  int order;  ///< G of what made the payload
  Instruction instruction;
};

class Lowering {
 public:
  Lowering(Plan& plan, const Figure& figure, MulticastAlgorithm algorithm)
      : plan_(plan),
        algorithm_(algorithm),
        flow_(plan),
        lists_(figure.size()),
        order_(figure.size()),
        insertions_(figure.size()) {
    for (int g = 0; g < std::ssize(plan.groups); ++g) group_index_.emplace(plan.groups[at(g)], g);
    for (int t = 0; t < std::ssize(plan.transfers); ++t) transfer_index_.emplace(plan.transfers[at(t)], t);
    const std::vector<std::vector<int>> order = linear_order(plan, figure);
    for (std::size_t rank = 0; rank < figure.size(); ++rank)
      for (std::size_t i = 0; i < figure[rank].size(); ++i) {
        if (figure[rank][i].instruction.stage == kNone) continue;
        lists_[rank].push_back(figure[rank][i].instruction);
        order_[rank].push_back(order[rank][i]);
      }
  }

  Program run(const std::string& name) {
    find_first_reads();
    for (const auto& [order, place] : in_order()) {
      const auto [rank, index] = place;
      const Instruction& instruction = lists_[at(rank)][at(index)];
      for (const ValueUse& use : flow_.access(instruction, rank).writes) send_value(use, rank, index);
      if (instruction.op == Op::optimizer_step) send_weights(plan_.stages[at(instruction.stage)], rank, index);
    }
    return merged(name);
  }

 private:
  struct Call {
    int transfer;
    int microbatch;
    int order;  // G of what made the payload
  };
  using FirstReads = std::map<Rank, int>;  // rank -> index of the first instruction that reads a value

  /// Rank and index of every instruction, by G.
  [[nodiscard]] std::map<int, std::pair<Rank, int>> in_order() const {
    std::map<int, std::pair<Rank, int>> places;
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank)
      for (int i = 0; i < std::ssize(lists_[at(rank)]); ++i) places[order_[at(rank)][at(i)]] = {rank, i};
    return places;
  }

  void find_first_reads() {
    std::set<std::tuple<Rank, TensorKind, int>> loaded;
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank)
      for (int i = 0; i < std::ssize(lists_[at(rank)]); ++i)
        for (const ValueUse& use : flow_.access(lists_[at(rank)][at(i)], rank).reads) {
          const Tensor& tensor = plan_.profile.model.tensors[at(use.value.tensor)];
          if (tensor.producer != kDataset)
            first_reads_[use].try_emplace(rank, i);
          else if (loaded.emplace(rank, tensor.kind, use.microbatch).second)
            insert_load(rank, i, tensor.kind, use.microbatch);
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
              use.microbatch, root, index, readers);
  }

  void send_weights(const Stage& updated, Rank root, int index) {
    for (const LayerId layer : updated.layers) {
      const std::int64_t bytes = plan_.profile.costs[at(layer)].parameter_bytes;
      if (bytes == 0) continue;
      FirstReads readers;  // they read in the next program, so all wait at the end of this one
      for (const Rank rank : plan_.stages[at(flow_.forward_stage(layer))].owners)
        if (rank != root) readers.emplace(rank, length(rank));
      multicast({.payload = Payload::weights, .layer = layer, .bytes = bytes}, kNone, root, index, readers);
    }
  }

  /// The root starts right behind instruction `index`, which made the payload, and
  /// waits one instruction later, so that the send hides behind it.
  void multicast(Transfer transfer, int microbatch, Rank root, int index, const FirstReads& readers) {
    if (readers.empty()) return;
    transfer.group = group_of(root, readers);
    const Call call{index_in(plan_.transfers, transfer_index_, transfer), microbatch, order_[at(root)][at(index)]};
    insert(root, call, index + 1, std::min(index + 2, length(root)));
    for (const auto& [rank, first_read] : readers) {
      const int earliest = transfer.payload == Payload::weights ? after_last_use(rank, transfer.layer) : 0;
      insert(rank, call, std::max(earliest, receive_slot(rank, call.order)), first_read);
    }
  }

  /// In front of the last instruction before G = `order`, and receive_ahead instructions earlier.
  [[nodiscard]] int receive_slot(Rank rank, int order) const {
    const std::vector<int>& own = order_[at(rank)];
    const auto before = std::lower_bound(own.begin(), own.end(), order) - own.begin();
    return std::max(0, static_cast<int>(before) - 1 - plan_.receive_ahead);
  }

  [[nodiscard]] int after_last_use(Rank rank, LayerId layer) const {
    const std::vector<Instruction>& list = lists_[at(rank)];
    for (int i = length(rank); i > 0; --i)
      if (list[at(i - 1)].op == Op::forward && list[at(i - 1)].stage == flow_.forward_stage(layer)) return i;
    return 0;
  }

  void insert(Rank rank, const Call& call, int start_slot, int wait_slot) {
    const auto [transfer, microbatch, order] = call;
    insertions_[at(rank)].push_back(
        {start_slot, Insertion::start, order, {Op::multicast_start, kNone, transfer, microbatch}});
    insertions_[at(rank)].push_back(
        {wait_slot, Insertion::wait, order, {Op::multicast_wait, kNone, transfer, microbatch}});
  }

  [[nodiscard]] int length(Rank rank) const { return static_cast<int>(lists_[at(rank)].size()); }

  int group_of(Rank root, const FirstReads& readers) {
    Group group{.root = root, .members = {root}, .algorithm = algorithm_};
    for (const auto& [rank, index] : readers) group.members.push_back(rank);
    std::sort(group.members.begin(), group.members.end());
    return index_in(plan_.groups, group_index_, group);
  }

  template <typename Row>
  static int index_in(std::vector<Row>& table, std::map<Row, int>& index, const Row& row) {
    const auto [known, is_new] = index.try_emplace(row, static_cast<int>(table.size()));
    if (is_new) table.push_back(row);
    return known->second;
  }

  Program merged(const std::string& name) {
    Program program{.name = name, .ranks = {}};
    for (Rank rank = 0; rank < std::ssize(lists_); ++rank) program.ranks.push_back(merged(rank));
    return program;
  }

  std::vector<Instruction> merged(Rank rank) {
    const auto key = [](const Insertion& i) {
      return std::tuple(i.slot, i.phase, i.order, i.instruction.transfer, i.instruction.op);
    };
    std::vector<Insertion>& insertions = insertions_[at(rank)];
    std::sort(insertions.begin(), insertions.end(),
              [&](const Insertion& a, const Insertion& b) { return key(a) < key(b); });
    std::vector<Instruction> list;
    auto next = insertions.begin();
    for (int slot = 0; slot <= length(rank); ++slot) {
      for (; next != insertions.end() && next->slot == slot; ++next) list.push_back(next->instruction);
      if (slot < length(rank)) list.push_back(lists_[at(rank)][at(slot)]);
    }
    return list;
  }

  Plan& plan_;
  const MulticastAlgorithm algorithm_;
  const DataFlow flow_;
  std::vector<std::vector<Instruction>> lists_;  // the figure's cells with work, by rank
  std::vector<std::vector<int>> order_;          // their G
  std::map<Group, int> group_index_;             // rows of the plan's tables
  std::map<Transfer, int> transfer_index_;
  std::map<ValueUse, FirstReads> first_reads_;
  std::vector<std::vector<Insertion>> insertions_;  // by rank
};

}  // namespace

Program lower(Plan& plan, const std::string& name, const Figure& figure, MulticastAlgorithm algorithm) {
  return Lowering(plan, figure, algorithm).run(name);
}

}  // namespace sluice
