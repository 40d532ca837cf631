#include "core/simulator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <utility>

#include "core/calls_in_flight.h"
#include "core/collective_progress.h"
#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/route_choice.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Something that happens at a time: a rank goes on, a message has arrived, or a ring is done.
struct Event {
  std::int64_t time_ns;
  std::int64_t sequence;  ///< first come, first served at equal times: the simulation is deterministic
  int call;               ///< its number; kNone: a rank goes on
  int what;               ///< the rank, or the move that is done; kNone: a ring is done
};
struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.sequence > b.sequence;
  }
};

/// Events by time. What is to happen at the time of the last one taken (messages over free links) need not be sorted.
class EventQueue {
 public:
  void push(std::int64_t time_ns, int call, int what) {
    const Event event{time_ns, sequence_++, call, what};
    if (time_ns == now_ns_)
      at_once_.push(event);
    else
      later_.push(event);
  }

  [[nodiscard]] bool empty() const { return at_once_.empty() && later_.empty(); }

  Event take() {
    // What has waited for this time came before what arose at it.
    const bool waited = !later_.empty() && (at_once_.empty() || later_.top().time_ns == now_ns_);
    Event event{};
    if (waited) {
      event = later_.top();
      later_.pop();
    } else {
      event = at_once_.front();
      at_once_.pop();
    }
    now_ns_ = event.time_ns;
    return event;
  }

 private:
  std::priority_queue<Event, std::vector<Event>, Later> later_;
  std::queue<Event> at_once_;
  std::int64_t now_ns_ = 0;
  std::int64_t sequence_ = 0;
};

class Simulation {
 public:
  Simulation(const Plan& plan, InstructionSource& source, SimulationSink& sink)
      : plan_(plan),
        source_(source),
        sink_(sink),
        ranks_(plan.cluster.ranks.size()),
        nic_free_ns_(plan.cluster.node_names.size()) {
    for (const Transfer& transfer : plan.transfers) add(transfer);
    for (const Stage& stage : plan.stages) {
      compute_s_.push_back(stage_time(plan.profile, stage.layers, stage.work));
      update_s_.push_back(update_time(plan.profile, stage.layers));
    }
  }

  void run() {
    for (Rank rank = 0; rank < std::ssize(ranks_); ++rank) events_.push(0, kNone, rank);
    while (!events_.empty()) {
      const Event event = events_.take();
      if (event.call == kNone)
        go_on(event.what, event.time_ns);
      else if (event.what == kNone)
        end_ring(calls_[at(event.call)], event.time_ns);
      else
        arrive(event);
    }
    check_all_ended();
  }

 private:
  struct LinkClock {
    std::int64_t outgoing = 0;
    std::int64_t incoming = 0;
  };

  struct RankState {
    const Instruction* instruction = nullptr;  // a wait that must wait; else null
    std::int64_t begun_ns = 0;                 // when it began
    int call = 0;                              // what it waits for
    int ended = 0;                             // instructions
    LinkClock link_free_ns;
  };

  /// A collective under way, from the first start to the end of the last wait.
  struct Call {
    Call(int transfer_of_plan, const Collectives& all) : transfer(transfer_of_plan), progress(all, transfer) {}
    int transfer;
    CollectiveProgress progress;
    int started = 0;  // members of a ring
    bool ring_over = false;
    int ended = 0;  // members that waited to the end
  };

  /// A ring's moves, members^2 of them, are not played one by one.
  void add(const Transfer& transfer) {
    const Group& group = plan_.groups[at(transfer.group)];
    const std::vector<Move> moves = is_ring(transfer) ? std::vector<Move>{} : moves_of(plan_, transfer);
    const Collectives::Shape& shape = collectives_[collectives_.add(group, moves)];
    sent_bytes_.resize(sent_bytes_.size() + group.members.size());
    const auto count = [&](Rank from, Rank to, std::int64_t bytes) {
      const LinkKind kind = link_between(plan_.cluster, from, to);
      sent_bytes_[at(collectives_.member(shape, from))][static_cast<std::size_t>(kind)] += bytes;
      return kind;
    };
    const LinkClasses links = links_of(transfer, moves.size());
    for (const Move& move : moves)
      move_s_.push_back(
          message_time(links[static_cast<std::size_t>(count(move.from, move.to, move.bytes))], move.bytes));
    if (!is_ring(transfer)) return;
    const std::vector<Edge> ring = ring_edges(group, plan_.cluster);
    const int members = static_cast<int>(ring.size());
    for (int e = 0; e < members; ++e) count(ring[at(e)].from, ring[at(e)].to, ring_bytes(transfer.bytes, members, e));
    const auto seconds = [&] {
      return collective_time(CollectiveKind::all_reduce, group, transfer.route, transfer.bytes, plan_.cluster);
    };
    if (const std::pair key(transfer.group, transfer.bytes); !ring_s_.contains(key)) ring_s_.emplace(key, seconds());
  }

  static bool is_ring(const Transfer& transfer) {
    return transfer.payload == Payload::weight_gradients && transfer.route.algorithm == Algorithm::ring;
  }

  [[nodiscard]] LinkClasses links_of(const Transfer& transfer, std::size_t moves) const {
    return link_classes(plan_.cluster, collective_of(transfer.payload), transfer.route, transfer.bytes, moves);
  }

  /// Executes until an instruction takes time or a wait must wait.
  void go_on(Rank rank, std::int64_t now_ns) {
    RankState& state = ranks_[at(rank)];
    if (state.instruction != nullptr) {
      if (!is_over(calls_[at(state.call)], rank)) return;
      const Instruction& wait = *std::exchange(state.instruction, nullptr);
      const LinkBytes& sent = sent_by(rank, calls_[at(state.call)]);
      end_wait(wait, state.call);
      ran(rank, wait, {state.begun_ns, now_ns, sent});
    }
    while (const Instruction* instruction = source_.next(rank))
      if (!execute(rank, *instruction, now_ns)) return;
  }

  /// @return whether the rank goes on at once
  bool execute(Rank rank, const Instruction& instruction, std::int64_t now_ns) {
    std::int64_t end_ns = now_ns;
    LinkBytes sent{};
    switch (instruction.op) {
      case Op::multicast_start:
      case Op::all_reduce_start:
        start(rank, instruction, now_ns);
        break;
      case Op::multicast_wait:
      case Op::all_reduce_wait:
        if (const int call = call_of(instruction); is_over(calls_[at(call)], rank)) {
          sent = sent_by(rank, calls_[at(call)]);
          end_wait(instruction, call);
        } else {
          RankState& state = ranks_[at(rank)];
          state.instruction = &instruction;
          state.begun_ns = now_ns;
          state.call = call;
          return false;
        }
        break;
      case Op::load_input:
      case Op::load_labels:
        break;
      default:
        end_ns = later_ns(now_ns, seconds_of(instruction) / plan_.cluster.ranks[at(rank)].speed);
        events_.push(end_ns, kNone, rank);
        ran(rank, instruction, {now_ns, end_ns, sent});
        return false;
    }
    ran(rank, instruction, {now_ns, end_ns, sent});
    return true;
  }

  void ran(Rank rank, const Instruction& instruction, const InstructionTime& time) {
    ++ranks_[at(rank)].ended;
    sink_.ran(rank, instruction, time);
  }

  /// instruction_time at speed 1, not summed anew each time.
  [[nodiscard]] double seconds_of(const Instruction& instruction) const {
    return (instruction.op == Op::optimizer_step ? update_s_ : compute_s_)[at(instruction.stage)];
  }

  [[nodiscard]] const Transfer& transfer_of(const Call& call) const { return plan_.transfers[at(call.transfer)]; }
  [[nodiscard]] bool is_over(const Call& call, Rank rank) const {
    if (is_ring(transfer_of(call))) return call.ring_over;
    return call.progress.done(collectives_.member(call.progress.shape(), rank));
  }

  /// In the whole call.
  [[nodiscard]] const LinkBytes& sent_by(Rank rank, const Call& call) const {
    return sent_bytes_[at(collectives_.member(call.progress.shape(), rank))];
  }

  int call_of(const Instruction& instruction) {
    const int number = in_flight_.number(instruction.transfer, instruction.microbatch);
    if (number == std::ssize(calls_)) {
      calls_.emplace_back(instruction.transfer, collectives_);
    } else if (Call& call = calls_[at(number)]; call.transfer == kNone) {
      call.transfer = instruction.transfer;
      call.progress.restart(instruction.transfer);
    }
    return number;
  }

  void end_wait(const Instruction& instruction, int number) {
    Call& call = calls_[at(number)];
    if (++call.ended < call.progress.shape().members) return;
    in_flight_.end(instruction.transfer, instruction.microbatch);
    call.transfer = kNone;
    call.started = call.ended = 0;
    call.ring_over = false;
  }

  void start(Rank rank, const Instruction& instruction, std::int64_t now_ns) {
    const int number = call_of(instruction);
    Call& call = calls_[at(number)];
    if (is_ring(transfer_of(call))) return start_ring(number, now_ns);
    const int member = collectives_.member(call.progress.shape(), rank);
    call.progress.start(member, [&](int move) { begin(number, move, now_ns); });
  }

  /// Takes the links of a message that is ready now.
  void begin(int number, int move, std::int64_t now_ns) {
    const Collectives::Passage& passage = collectives_.move(move);
    const Edge edge{collectives_.rank(passage.from), collectives_.rank(passage.to)};
    const LinkKind kind = link_between(plan_.cluster, edge.from, edge.to);
    events_.push(occupy(edge, kind, free_at(edge, kind, now_ns), move_s_[at(move)], passage.bytes), number, move);
  }

  void arrive(const Event& event) {
    calls_[at(event.call)].progress.finish(event.what, [&](int move) { begin(event.call, move, event.time_ns); });
    const Collectives::Passage& passage = collectives_.move(event.what);
    // The first may end the call.
    for (const Rank rank : {collectives_.rank(passage.from), collectives_.rank(passage.to)})
      if (ranks_[at(rank)].instruction != nullptr) go_on(rank, event.time_ns);
  }

  /// The last member to start sets the ring going.
  void start_ring(int number, std::int64_t now_ns) {
    Call& call = calls_[at(number)];
    const int members = call.progress.shape().members;
    if (++call.started < members) return;
    const Transfer& transfer = transfer_of(call);
    const std::vector<Edge> ring = ring_edges(plan_.groups[at(transfer.group)], plan_.cluster);
    const auto kind_of = [&](const Edge& edge) { return link_between(plan_.cluster, edge.from, edge.to); };
    const LinkClasses links = links_of(transfer, ring.size());
    std::int64_t begin_ns = now_ns;
    for (const Edge& edge : ring) begin_ns = std::max(begin_ns, free_at(edge, kind_of(edge), now_ns));
    for (int e = 0; e < std::ssize(ring); ++e) {
      const std::int64_t bytes = ring_bytes(transfer.bytes, members, e);
      const LinkKind kind = kind_of(ring[at(e)]);
      const double seconds = ring_time(links[static_cast<std::size_t>(kind)], bytes, members);
      static_cast<void>(occupy(ring[at(e)], kind, begin_ns, seconds, bytes));
    }
    events_.push(later_ns(begin_ns, ring_s_.at({transfer.group, transfer.bytes})), number, kNone);
  }

  void end_ring(Call& call, std::int64_t now_ns) {
    call.ring_over = true;
    for (const Rank rank : plan_.groups[at(transfer_of(call).group)].members)
      if (ranks_[at(rank)].instruction != nullptr) go_on(rank, now_ns);
  }

  /// When both links of an edge are free.
  std::int64_t free_at(const Edge& edge, LinkKind kind, std::int64_t now_ns) {
    return std::max({now_ns, clock(kind, edge.from).outgoing, clock(kind, edge.to).incoming});
  }

  /// @return when they are free again
  std::int64_t occupy(const Edge& edge, LinkKind kind, std::int64_t begin_ns, double seconds, std::int64_t bytes) {
    const std::int64_t end_ns = later_ns(begin_ns, seconds);
    clock(kind, edge.from).outgoing = clock(kind, edge.to).incoming = end_ns;
    sink_.sent(edge, kind, bytes);
    return end_ns;
  }

  LinkClock& clock(LinkKind kind, Rank rank) {
    if (kind == LinkKind::intra_node) return ranks_[at(rank)].link_free_ns;
    return nic_free_ns_[at(plan_.cluster.ranks[at(rank)].node)];
  }

  void check_all_ended() const {
    for (Rank rank = 0; rank < std::ssize(ranks_); ++rank)
      if (const RankState& state = ranks_[at(rank)]; state.instruction != nullptr)
        throw runtime_fault(text("the simulation of program ", source_.name(), " stalls: rank ", rank,
                                 " never gets past instruction ", state.ended, " (", cell(plan_, *state.instruction),
                                 "): verify the plan"));
  }

  const Plan& plan_;
  InstructionSource& source_;
  SimulationSink& sink_;
  Collectives collectives_;                                // by transfer
  std::vector<double> move_s_;                             // by move of these
  std::vector<LinkBytes> sent_bytes_;                      // by member of these, in one call
  std::map<std::pair<int, std::int64_t>, double> ring_s_;  // by group and bytes
  std::vector<double> compute_s_, update_s_;               // by stage
  EventQueue events_;
  CallsInFlight in_flight_;
  std::deque<Call> calls_;  // by number; a deque, since calls begin while others are looked at
  std::vector<RankState> ranks_;
  std::vector<LinkClock> nic_free_ns_;  // by node
};

/// Keeps every time.
class TimelineSink final : public SimulationSink {
 public:
  explicit TimelineSink(const Program& program) {
    for (const auto& list : program.ranks) {
      timeline_.ranks.emplace_back();
      timeline_.ranks.back().instructions.reserve(list.size());
    }
  }

  void ran(Rank rank, const Instruction&, const InstructionTime& time) override {
    timeline_.ranks[at(rank)].instructions.push_back(time);
  }
  void sent(const Edge& edge, LinkKind kind, std::int64_t bytes) override {
    timeline_.ranks[at(edge.from)].sent_bytes[static_cast<std::size_t>(kind)] += bytes;
    timeline_.ranks[at(edge.to)].received_bytes[static_cast<std::size_t>(kind)] += bytes;
  }

  [[nodiscard]] Timeline take() { return std::move(timeline_); }

 private:
  Timeline timeline_;
};

}  // namespace

void simulate(const Plan& plan, InstructionSource& source, SimulationSink& sink) {
  Simulation(plan, source, sink).run();
}

Timeline simulate(const Plan& plan, const std::string& program) {
  return simulate(plan, sluice::program(plan, program));
}

Timeline simulate(const Plan& plan, const Program& lists) {
  ProgramSource source(lists);
  TimelineSink sink(lists);
  simulate(plan, source, sink);
  Timeline timeline = sink.take();
  for (Rank rank = 0; rank < std::ssize(timeline.ranks); ++rank)
    timeline.ranks[at(rank)].peak_memory_bytes = memory_use(plan, rank).total();
  return timeline;
}

void SimulationTotals::ran(Rank rank, const Instruction& instruction, const InstructionTime& time) {
  ++instructions_;
  makespan_ns_ = std::max(makespan_ns_, time.end_ns);
  if (!is_compute(instruction.op)) return;
  compute_ns_[at(rank)] += time.end_ns - time.start_ns;
  computes_[at(rank)] = true;
}

void SimulationTotals::sent(const Edge&, LinkKind kind, std::int64_t bytes) {
  sent_bytes_[static_cast<std::size_t>(kind)] += bytes;
}

double SimulationTotals::bubble_fraction() const {
  std::int64_t computing_ns = 0;
  for (const std::int64_t ns : compute_ns_) computing_ns += ns;
  const auto computing_ranks = std::count(computes_.begin(), computes_.end(), true);
  const double available = static_cast<double>(makespan_ns_) * static_cast<double>(computing_ranks);
  return available > 0 ? 1 - static_cast<double>(computing_ns) / available : 0;
}

}  // namespace sluice
