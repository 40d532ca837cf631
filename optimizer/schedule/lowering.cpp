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

// Why the result cannot hang. Let G be the linear order of the figure, and run the program so: each rank runs ahead as
// far as starts and loads let it, which never block; otherwise the instructions run in the order of G, each after the
// waits in front of it.
//   A multicast's root starts right after the instruction p that made the
// payload. Each receiver's start follows directly an instruction i with
// G(i) < G(p), or stands at the head of its program. So when p is done, all
// members have started, and the payload can reach everyone at once, relayed or not.
//   Every wait stands before an instruction w with G(w) > G(p), or at the end
// of its program: a root's because w comes after p on the same rank, a receiver's because
// w reads the value, and G puts writing before reading. So no wait of this run blocks.
//   What a rank does next depends on its own list alone, starts never block,
// and once a payload can move it stays so until it has. In such a network
// one run that completes proves that all interleavings complete.
//   A group's members start its multicasts in the same order: that of G(p), then
// of the transfer. Where a start stands grows with G(p), at the root and at the
// receivers; weights come last, since a root updates after all else it makes.

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
    if (readers.empty()) return;
    const int transfer = transfer_of({.payload = use.value.payload,
                                      .tensor = use.value.tensor,
                                      .stage = use.value.stage,
                                      .group = group_of(root, readers),
                                      .bytes = plan_.profile.model.tensors[at(use.value.tensor)].bytes});
    insert_root(root, index, transfer, use.microbatch);
    for (const auto& [rank, first_read] : readers)
      insert_receiver(rank, receive_slot(rank, order_[at(root)][at(index)]), first_read, root, index, transfer,
                      use.microbatch);
  }

  void send_weights(const Stage& updated, Rank root, int index) {
    for (const LayerId layer : updated.layers) {
      const std::int64_t bytes = plan_.profile.costs[at(layer)].parameter_bytes;
      FirstReads readers;  // who needs them in the next program: all wait at the end of this one
      for (const Rank rank : plan_.stages[at(flow_.forward_stage(layer))].owners)
        if (rank != root) readers.emplace(rank, static_cast<int>(lists_[at(rank)].size()));
      if (bytes == 0 || readers.empty()) continue;
      const int transfer =
          transfer_of({.payload = Payload::weights, .layer = layer, .group = group_of(root, readers), .bytes = bytes});
      insert_root(root, index, transfer, kNone);
      for (const auto& [rank, end] : readers) {
        const int slot = std::max(receive_slot(rank, order_[at(root)][at(index)]), after_last_use(rank, layer));
        insert_receiver(rank, slot, end, root, index, transfer, kNone);
      }
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
    for (int i = static_cast<int>(list.size()); i > 0; --i)
      if (list[at(i - 1)].op == Op::forward && list[at(i - 1)].stage == flow_.forward_stage(layer)) return i;
    return 0;
  }

  /// The root waits one compute instruction after the one that the send overlaps with.
  void insert_root(Rank rank, int index, int transfer, int microbatch) {
    const int end = static_cast<int>(lists_[at(rank)].size());
    const int order = order_[at(rank)][at(index)];
    insert(rank, index + 1, Insertion::start, order, Op::multicast_start, transfer, microbatch);
    insert(rank, std::min(index + 2, end), Insertion::wait, order, Op::multicast_wait, transfer, microbatch);
  }

  void insert_receiver(Rank rank, int start_slot, int wait_slot, Rank root, int index, int transfer, int microbatch) {
    const int order = order_[at(root)][at(index)];
    insert(rank, start_slot, Insertion::start, order, Op::multicast_start, transfer, microbatch);
    insert(rank, wait_slot, Insertion::wait, order, Op::multicast_wait, transfer, microbatch);
  }

  void insert(Rank rank, int slot, Insertion::Phase phase, int order, Op op, int transfer, int microbatch) {
    insertions_[at(rank)].push_back({slot, phase, order, {.op = op, .transfer = transfer, .microbatch = microbatch}});
  }

  int group_of(Rank root, const FirstReads& readers) {
    Group group{.root = root, .members = {root}, .algorithm = algorithm_};
    for (const auto& [rank, index] : readers) group.members.push_back(rank);
    std::sort(group.members.begin(), group.members.end());
    return index_in(plan_.groups, group);
  }

  int transfer_of(const Transfer& transfer) { return index_in(plan_.transfers, transfer); }

  template <typename Row>
  static int index_in(std::vector<Row>& table, const Row& row) {
    const auto found = std::find(table.begin(), table.end(), row);
    const auto index = static_cast<int>(found - table.begin());
    if (found == table.end()) table.push_back(row);
    return index;
  }

  Program merged(const std::string& name) {
    Program program{.name = name, .ranks = std::vector<std::vector<Instruction>>(lists_.size())};
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      const auto key = [](const Insertion& i) {
        return std::tuple(i.slot, i.phase, i.order, i.instruction.transfer, i.instruction.op);
      };
      std::vector<Insertion>& insertions = insertions_[rank];
      std::sort(insertions.begin(), insertions.end(),
                [&](const Insertion& a, const Insertion& b) { return key(a) < key(b); });
      std::vector<Instruction>& list = program.ranks[rank];
      auto next = insertions.begin();
      for (int slot = 0; slot <= std::ssize(lists_[rank]); ++slot) {
        for (; next != insertions.end() && next->slot == slot; ++next) list.push_back(next->instruction);
        if (slot < std::ssize(lists_[rank])) list.push_back(lists_[rank][at(slot)]);
      }
    }
    return program;
  }

  Plan& plan_;
  const MulticastAlgorithm algorithm_;
  const DataFlow flow_;
  std::vector<std::vector<Instruction>> lists_;  // the figure's cells with work, by rank
  std::vector<std::vector<int>> order_;          // their G
  std::map<ValueUse, FirstReads> first_reads_;
  std::vector<std::vector<Insertion>> insertions_;  // by rank
};

}  // namespace

Program lower(Plan& plan, const std::string& name, const Figure& figure, MulticastAlgorithm algorithm) {
  return Lowering(plan, figure, algorithm).run(name);
}

}  // namespace sluice
