#include "core/simulator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/multicast_progress.h"
#include "core/text.h"

namespace sluice {
namespace {

using Call = std::pair<int, int>;  // transfer, micro-batch

/// @throws Error (bad input) past 100 years: a bandwidth or speed near 0 must not overflow
std::int64_t later_ns(std::int64_t now_ns, double seconds) {
  constexpr double kLatestNs = 100 * 365.25 * 86400 * 1e9;
  const double span_ns = seconds * 1e9;
  if (!(static_cast<double>(now_ns) + span_ns <= kLatestNs))
    throw bad_input("the plan takes more than 100 years: check the cluster's bandwidths, latencies and speeds");
  return now_ns + std::llround(span_ns);
}

/// Something that happens at a time: a rank goes on, a message has arrived, or an all-reduce is done.
struct Event {
  std::int64_t time_ns;
  std::int64_t sequence;  ///< first come, first served at equal times: the simulation is deterministic
  Rank rank;              ///< who goes on; kNone: the call
  Call call;
  Edge edge;  ///< the message's; an all-reduce has none
};
struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return std::pair(a.time_ns, a.sequence) > std::pair(b.time_ns, b.sequence);
  }
};

class Simulation {
 public:
  Simulation(const Plan& plan, const Program& program)
      : plan_(plan),
        program_(program),
        next_(program.ranks.size(), 0),
        waits_(program.ranks.size(), false),
        rank_link_free_ns_(program.ranks.size()),
        nic_free_ns_(plan.cluster.node_names.size()) {
    for (const Group& group : plan.groups) edges_.push_back(multicast_edges(group, plan.cluster));
    for (const auto& list : program.ranks) {
      timeline_.ranks.emplace_back();
      timeline_.ranks.back().instructions.resize(list.size());
    }
  }

  Timeline run() {
    for (Rank rank = 0; rank < std::ssize(program_.ranks); ++rank) go_on_at(0, rank);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.rank != kNone)
        go_on(event.rank, event.time_ns);
      else if (is_all_reduce(event.call))
        end_all_reduce(event);
      else
        arrive(event);
    }
    check_all_ended();
    for (Rank rank = 0; rank < std::ssize(program_.ranks); ++rank)
      timeline_.ranks[at(rank)].peak_memory_bytes = memory_use(plan_, rank).total();
    return std::move(timeline_);
  }

 private:
  struct LinkClock {
    std::int64_t outgoing = 0;
    std::int64_t incoming = 0;
  };

  struct AllReduce {
    int started = 0;
    bool done = false;
  };

  void go_on_at(std::int64_t time_ns, Rank rank) {
    events_.push({.time_ns = time_ns, .sequence = sequence_++, .rank = rank, .call = {}, .edge = {}});
  }

  /// Executes until an instruction takes time or a wait must wait.
  void go_on(Rank rank, std::int64_t now_ns) {
    const std::vector<Instruction>& list = program_.ranks[at(rank)];
    for (int& i = next_[at(rank)]; i < std::ssize(list); ++i) {
      const Instruction& instruction = list[at(i)];
      InstructionTime& time = timeline_.ranks[at(rank)].instructions[at(i)];
      if (!waits_[at(rank)]) time.start_ns = now_ns;
      time.end_ns = now_ns;
      if (instruction.op == Op::multicast_start) start(rank, instruction, now_ns);
      if (instruction.op == Op::all_reduce_start) start_all_reduce(instruction, now_ns);
      waits_[at(rank)] = must_wait(rank, instruction);
      if (waits_[at(rank)]) return;
      if (is_compute(instruction.op) || instruction.op == Op::optimizer_step) {
        time.end_ns = later_ns(now_ns, instruction_time(plan_, instruction, rank));
        ++i;
        return go_on_at(time.end_ns, rank);
      }
    }
  }

  bool must_wait(Rank rank, const Instruction& instruction) {
    if (instruction.op == Op::multicast_wait) return !call_of(instruction).done(rank);
    if (instruction.op == Op::all_reduce_wait) return !all_reduces_[instruction.transfer].done;
    return false;
  }

  [[nodiscard]] const Group& group_of(int transfer) const {
    return plan_.groups[at(plan_.transfers[at(transfer)].group)];
  }
  [[nodiscard]] bool is_all_reduce(const Call& call) const {
    return plan_.transfers[at(call.first)].payload == Payload::weight_gradients;
  }

  MulticastProgress& call_of(const Instruction& instruction) {
    const int group = plan_.transfers[at(instruction.transfer)].group;
    return calls_
        .try_emplace({instruction.transfer, instruction.microbatch}, plan_.groups[at(group)].root, edges_[at(group)])
        .first->second;
  }

  void start(Rank rank, const Instruction& instruction, std::int64_t now_ns) {
    const Call call{instruction.transfer, instruction.microbatch};
    for (const Edge& edge : call_of(instruction).start(rank)) move(call, edge, now_ns);
  }

  /// Takes the links of a message that is ready now.
  void move(const Call& call, const Edge& edge, std::int64_t now_ns) {
    const std::int64_t bytes = plan_.transfers[at(call.first)].bytes;
    const double seconds =
        message_time(link_class(plan_.cluster, link_between(plan_.cluster, edge.from, edge.to)), bytes);
    const std::int64_t end_ns = occupy(edge, free_at(edge, now_ns), seconds, bytes);
    events_.push({.time_ns = end_ns, .sequence = sequence_++, .rank = kNone, .call = call, .edge = edge});
  }

  /// The last member to start sets the ring going.
  void start_all_reduce(const Instruction& instruction, std::int64_t now_ns) {
    const Group& group = group_of(instruction.transfer);
    const int members = static_cast<int>(group.members.size());
    if (++all_reduces_[instruction.transfer].started < members) return;
    const std::vector<Edge> ring = ring_edges(group, plan_.cluster);
    std::int64_t begin_ns = now_ns;
    for (const Edge& edge : ring) begin_ns = std::max(begin_ns, free_at(edge, now_ns));
    std::int64_t end_ns = begin_ns;
    for (int e = 0; e < std::ssize(ring); ++e) {
      const std::int64_t bytes = ring_bytes(plan_.transfers[at(instruction.transfer)].bytes, members, e);
      const LinkKind kind = link_between(plan_.cluster, ring[at(e)].from, ring[at(e)].to);
      const double seconds = ring_time(link_class(plan_.cluster, kind), bytes, members);
      end_ns = std::max(end_ns, occupy(ring[at(e)], begin_ns, seconds, bytes));
    }
    const Call call{instruction.transfer, instruction.microbatch};
    events_.push({.time_ns = end_ns, .sequence = sequence_++, .rank = kNone, .call = call, .edge = {}});
  }

  void end_all_reduce(const Event& event) {
    all_reduces_[event.call.first].done = true;
    for (const Rank rank : group_of(event.call.first).members)
      if (waits_[at(rank)]) go_on(rank, event.time_ns);
  }

  /// When both links of an edge are free.
  std::int64_t free_at(const Edge& edge, std::int64_t now_ns) {
    const LinkKind kind = link_between(plan_.cluster, edge.from, edge.to);
    return std::max({now_ns, clock(kind, edge.from).outgoing, clock(kind, edge.to).incoming});
  }

  /// @return when they are free again
  std::int64_t occupy(const Edge& edge, std::int64_t begin_ns, double seconds, std::int64_t bytes) {
    const LinkKind kind = link_between(plan_.cluster, edge.from, edge.to);
    const std::int64_t end_ns = later_ns(begin_ns, seconds);
    clock(kind, edge.from).outgoing = clock(kind, edge.to).incoming = end_ns;
    timeline_.ranks[at(edge.from)].sent_bytes[static_cast<std::size_t>(kind)] += bytes;
    timeline_.ranks[at(edge.to)].received_bytes[static_cast<std::size_t>(kind)] += bytes;
    return end_ns;
  }

  LinkClock& clock(LinkKind kind, Rank rank) {
    if (kind == LinkKind::intra_node) return rank_link_free_ns_[at(rank)];
    return nic_free_ns_[at(plan_.cluster.ranks[at(rank)].node)];
  }

  void arrive(const Event& event) {
    for (const Edge& edge : calls_.at(event.call).arrive(event.edge)) move(event.call, edge, event.time_ns);
    for (const Rank rank : {event.edge.from, event.edge.to})
      if (waits_[at(rank)]) go_on(rank, event.time_ns);
  }

  void check_all_ended() const {
    for (Rank rank = 0; rank < std::ssize(program_.ranks); ++rank) {
      const std::vector<Instruction>& list = program_.ranks[at(rank)];
      if (const int i = next_[at(rank)]; i < std::ssize(list))
        throw runtime_fault(text("the simulation of program ", program_.name, " stalls: rank ", rank,
                                 " never gets past instruction ", i, " (", cell(plan_, list[at(i)]),
                                 "): verify the plan"));
    }
  }

  const Plan& plan_;
  const Program& program_;
  std::vector<std::vector<Edge>> edges_;  // by group
  std::map<Call, MulticastProgress> calls_;
  std::map<int, AllReduce> all_reduces_;  // by transfer
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::int64_t sequence_ = 0;
  std::vector<int> next_;    // by rank: instruction to execute
  std::vector<bool> waits_;  // by rank: it is a wait that has begun
  std::vector<LinkClock> rank_link_free_ns_, nic_free_ns_;
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const Plan& plan, const std::string& program) {
  return Simulation(plan, sluice::program(plan, program)).run();
}

}  // namespace sluice
