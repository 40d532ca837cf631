#include "core/verifier.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <span>

#include "core/asynchronous.h"
#include "core/collective_progress.h"
#include "core/index.h"
#include "core/liveness.h"
#include "core/rank_walk.h"
#include "core/stage_check.h"
#include "core/text.h"

namespace sluice {
namespace {

// --- The grid -----------------------------------------------------------

std::string cell_or_end(const Plan& plan, const std::vector<Instruction>& list, int index) {
  return index == std::ssize(list) ? "end" : cell(plan, list[at(index)]);
}

/// `centre` of each rank, and some instructions before and after it.
std::string grid(const Plan& plan, const Program& program, const std::vector<int>& centre, const Finding& failing) {
  constexpr int kAround = 5;
  std::ostringstream out;
  for (Rank rank = 0; rank < std::ssize(program.ranks); ++rank) {
    const std::vector<Instruction>& list = program.ranks[at(rank)];
    out << "rank " << std::left << std::setw(3) << rank << '|';
    for (int i = centre[at(rank)] - kAround; i <= centre[at(rank)] + kAround; ++i) {
      std::string shown = i < 0 || i > std::ssize(list) ? "" : cell_or_end(plan, list, i);
      if (rank == failing.rank && i == failing.instruction) shown = text('[', shown, ']');
      out << ' ' << std::setw(7) << shown;
    }
    out << '\n';
  }
  return out.str();
}

Defect defect(const Plan& plan, const Program& program, const std::vector<int>& centre, const Finding& finding) {
  return {.program = program.name,
          .rank = finding.rank,
          .instruction = finding.instruction,
          .reason = finding.reason,
          .cell = cell_or_end(plan, program.ranks[at(finding.rank)], finding.instruction),
          .grid = grid(plan, program, centre, finding)};
}

Defect defect(const Plan& plan, const Program& program, const Finding& finding) {
  return defect(plan, program, std::vector<int>(program.ranks.size(), finding.instruction), finding);
}

Defect whole_plan(const std::string& reason, Rank rank = kNone) {
  return {.program = "", .rank = rank, .instruction = kNone, .reason = reason, .cell = "", .grid = ""};
}

/// "rank 3", "ranks 3, 5".
std::string joined(const std::vector<Rank>& ranks) {
  std::string joined = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) joined += text(i == 0 ? "" : ", ", ranks[i]);
  return joined;
}

// --- Tables -------------------------------------------------------------

/// The ranks that may hold the payload first, empty if any may (the dataset's tensors where everyone reads). Of
/// replicas the micro-batch says which; whether the payload is there is checked where it is sent.
std::vector<Rank> sources(const Plan& plan, const DataFlow& flow, const Transfer& transfer) {
  int stage = transfer.stage;
  if (of_layer(transfer.payload)) stage = flow.update_stage(transfer.layer);
  if (transfer.payload == Payload::activation) {
    const LayerId producer = plan.profile.model.tensors[at(transfer.tensor)].producer;
    if (producer == kDataset) return plan.data_reader == kNone ? std::vector<Rank>{} : std::vector{plan.data_reader};
    stage = flow.forward_stage(producer);
  }
  return plan.stages[at(stage)].owners;
}

std::optional<Defect> check_transfer(const Plan& plan, const DataFlow& flow, int index) {
  const Transfer& transfer = plan.transfers[at(index)];
  const Group& group = plan.groups[at(transfer.group)];
  const std::int64_t bytes = of_layer(transfer.payload) ? plan.profile.costs[at(transfer.layer)].parameter_bytes
                                                        : plan.profile.model.tensors[at(transfer.tensor)].bytes;
  if (transfer.bytes != bytes)
    return whole_plan(text("transfer ", index, " has ", transfer.bytes, " bytes, its payload ", bytes));
  std::vector<Rank> from = sources(plan, flow, transfer);
  std::sort(from.begin(), from.end());
  if (transfer.payload == Payload::weight_gradients && group.members != from)
    return whole_plan(text("transfer ", index, " does not sum gradients over the replicas of layer ",
                           plan.profile.model.layers[at(transfer.layer)].name));
  if (!from.empty() && !std::binary_search(from.begin(), from.end(), group.root))
    return whole_plan(text("transfer ", index, " starts from rank ", group.root, ", but ", joined(from),
                           from.size() == 1 ? " makes" : " make", " its payload"));
  return std::nullopt;
}

std::optional<Defect> check_transfers(const Plan& plan, const DataFlow& flow) {
  for (int t = 0; t < std::ssize(plan.transfers); ++t)
    if (auto found = check_transfer(plan, flow, t)) return found;
  return std::nullopt;
}

const std::vector<const char*> kSynchronous{"step"}, kAsynchronous{"fill", "steady", "drain"};

std::optional<Defect> check_programs(const Plan& plan) {
  std::map<std::string, int> times{{"evaluate", 0}};
  for (const char* name : asynchronous(plan) ? kAsynchronous : kSynchronous) times[name] = 0;
  for (const Program& program : plan.programs) {
    if (!times.contains(program.name)) return whole_plan(text("program ", program.name, " is not supported"));
    ++times[program.name];
  }
  for (const auto& [name, count] : times)
    if (count != 1) return whole_plan(text("the plan has ", count, " programs ", name, ", expected exactly one"));
  return std::nullopt;
}

// --- Ranks against each other -------------------------------------------

/// Starts of each group at each member, in order.
struct Start {
  int instruction;
  int transfer;
  int microbatch;
};
using StartsOfGroups = std::map<std::pair<int, Rank>, std::vector<Start>>;

StartsOfGroups starts_of_groups(const Plan& plan, const Program& program) {
  StartsOfGroups starts;
  for (Rank rank = 0; rank < std::ssize(program.ranks); ++rank)
    for (int i = 0; i < std::ssize(program.ranks[at(rank)]); ++i) {
      const Instruction& instruction = program.ranks[at(rank)][at(i)];
      if (instruction.op != Op::multicast_start && instruction.op != Op::all_reduce_start) continue;
      const int group = plan.transfers[at(instruction.transfer)].group;
      starts[{group, rank}].push_back({i, instruction.transfer, instruction.microbatch});
    }
  return starts;
}

std::optional<Defect> check_order(const Plan& plan, const Program& program) {
  StartsOfGroups starts = starts_of_groups(plan, program);
  const auto shown = [](const Start& start) { return text("transfer ", start.transfer, '.', start.microbatch); };
  for (int group = 0; group < std::ssize(plan.groups); ++group) {
    const Rank root = plan.groups[at(group)].root;
    const std::vector<Start>& expected = starts[{group, root}];
    for (const Rank rank : plan.groups[at(group)].members) {
      const std::vector<Start>& own = starts[{group, rank}];
      const auto [mine, theirs] = std::mismatch(
          own.begin(), own.end(), expected.begin(), expected.end(),
          [](const Start& a, const Start& b) { return a.transfer == b.transfer && a.microbatch == b.microbatch; });
      if (mine == own.end() && theirs == expected.end()) continue;
      const int end = static_cast<int>(program.ranks[at(rank)].size());
      return defect(plan, program,
                    {rank, mine == own.end() ? end : mine->instruction,
                     text("collective ", mine - own.begin(), " of group ", group, " is ",
                          mine == own.end() ? "missing" : shown(*mine), ", but at rank ", root, " it is ",
                          theirs == expected.end() ? "missing" : shown(*theirs))});
    }
  }
  return std::nullopt;
}

/// Runs a program with messages that take no time. Since nothing that could
/// happen ever ceases to be possible, one such run decides about all. Multicasts travel whole: the segments of one do
/// not wait for each other, so that all of them could move where the whole could. An all-reduce, of any route, is
/// over at a member once all have started: not before, since the sums have a part of each.
class StallCheck {
 public:
  StallCheck(const Plan& plan, const Program& program)
      : plan_(plan), program_(program), next_(program.ranks.size(), 0) {
    for (Transfer transfer : plan.transfers) {
      transfer.route.segment_bytes = 0;
      const bool sums = transfer.payload == Payload::weight_gradients;
      collectives_.add(plan.groups[at(transfer.group)], sums ? std::vector<Move>{} : moves_of(plan, transfer));
    }
  }

  std::optional<Defect> run() {
    advance();
    for (Rank rank = 0; rank < std::ssize(program_.ranks); ++rank)
      if (next_[at(rank)] < std::ssize(program_.ranks[at(rank)]))
        return defect(plan_, program_, next_, {rank, next_[at(rank)], why_stuck(rank)});
    return std::nullopt;
  }

  /// Instructions that each rank cannot execute.
  std::vector<std::ptrdiff_t> left() {
    advance();
    std::vector<std::ptrdiff_t> left;
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      left.push_back(std::ssize(program_.ranks[rank]) - next_[rank]);
    return left;
  }

 private:
  void advance() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < std::ssize(program_.ranks); ++rank)
        while (next_[at(rank)] < std::ssize(program_.ranks[at(rank)]) && step(rank)) moved = true;
    }
  }

  bool step(Rank rank) {
    const Instruction& instruction = program_.ranks[at(rank)][at(next_[at(rank)])];
    switch (instruction.op) {
      case Op::multicast_wait:
        if (!call_of(instruction).done(member(instruction, rank))) return false;
        break;
      case Op::all_reduce_wait:
        if (std::ssize(all_reduce_started_[instruction.transfer]) < std::ssize(members(instruction))) return false;
        break;
      case Op::multicast_start:
        start(member(instruction, rank), call_of(instruction));
        break;
      case Op::all_reduce_start:
        all_reduce_started_[instruction.transfer].insert(rank);
        break;
      default:
        break;
    }
    ++next_[at(rank)];
    return true;
  }

  static void start(int member, CollectiveProgress& call) {
    std::vector<int> moving;
    const auto begin = [&](int move) { moving.push_back(move); };
    call.start(member, begin);
    while (!moving.empty()) {
      const int move = moving.back();
      moving.pop_back();
      call.finish(move, begin);
    }
  }

  [[nodiscard]] int member(const Instruction& instruction, Rank rank) const {
    return collectives_.member(collectives_[instruction.transfer], rank);
  }

  [[nodiscard]] const std::vector<Rank>& members(const Instruction& instruction) const {
    return plan_.groups[at(plan_.transfers[at(instruction.transfer)].group)].members;
  }

  CollectiveProgress& call_of(const Instruction& instruction) {
    return calls_.try_emplace({instruction.transfer, instruction.microbatch}, collectives_, instruction.transfer)
        .first->second;
  }

  std::string why_stuck(Rank rank) {
    const Instruction& wait = program_.ranks[at(rank)][at(next_[at(rank)])];
    const bool multicast = wait.op == Op::multicast_wait;
    std::vector<Rank> missing;
    for (const Rank rank_of_group : members(wait))
      if (multicast ? !call_of(wait).started(member(wait, rank_of_group))
                    : !all_reduce_started_[wait.transfer].contains(rank_of_group))
        missing.push_back(rank_of_group);
    return text("waits for ever: the ", multicast ? "multicast" : "all-reduce", " is never started by ",
                joined(missing), ", which wait", missing.size() == 1 ? "s itself" : " themselves");
  }

  const Plan& plan_;
  const Program& program_;
  Collectives collectives_;  // by transfer
  std::vector<int> next_;    // by rank
  std::map<std::pair<int, int>, CollectiveProgress> calls_;
  std::map<int, std::set<Rank>> all_reduce_started_;  // by transfer
};

std::optional<Defect> check_program(const Plan& plan, const DataFlow& flow, const Program& program, int microbatches) {
  for (Rank rank = 0; rank < std::ssize(program.ranks); ++rank)
    if (const auto finding = walk_rank(plan, flow, program, microbatches, rank)) return defect(plan, program, *finding);
  if (auto found = check_order(plan, program)) return found;
  return StallCheck(plan, program).run();
}

// --- Asynchronous programs ----------------------------------------------

/// Where things stand after fill and some runs of steady, counted from the base of the next.
struct PipelineState {
  std::vector<RankState> ranks;
  std::vector<std::vector<std::pair<int, int>>> unanswered;  ///< by group and member: starts that some member lacks
  std::vector<std::ptrdiff_t> left;                          ///< by rank: instructions that wait for later programs
  bool operator==(const PipelineState&) const = default;
};

PipelineState pipeline_after(const Plan& plan, const DataFlow& flow, int steadies) {
  const Program program = unrolled_without_drain(plan, steadies);
  PipelineState state;
  for (Rank rank = 0; rank < std::ssize(program.ranks); ++rank)
    state.ranks.push_back(state_after(plan, flow, program, steadies, rank));
  StartsOfGroups starts = starts_of_groups(plan, program);
  for (int group = 0; group < std::ssize(plan.groups); ++group) {
    std::size_t common = starts[{group, plan.groups[at(group)].root}].size();
    for (const Rank rank : plan.groups[at(group)].members) common = std::min(common, starts[{group, rank}].size());
    for (const Rank rank : plan.groups[at(group)].members) {
      auto& tail = state.unanswered.emplace_back();
      for (const Start& start : std::span(starts[{group, rank}]).subspan(common))
        tail.emplace_back(start.transfer, start.microbatch - steadies * plan.microbatches);
    }
  }
  state.left = StallCheck(plan, program).left();
  return state;
}

/// Any number of runs of steady, decided by a few. From some run on, none leaves anything out or is short of old
/// versions. If then one more changes nothing but the numbers (what each rank holds and has started, who is ahead of
/// whom in which group, and how far each gets before it needs the others' next programs), all that follow do the same
/// with higher numbers, and so does the drain behind them.
std::optional<Defect> check_asynchronous(const Plan& plan, const DataFlow& flow) {
  for (const Stage& stage : plan.stages)
    if (stage.owners.size() > 1 || (stage.work != Work::forward && stage.work != Work::backward))
      return whole_plan(text(to_string(stage.work), " stage ", stage.index, " with ", stage.owners.size(),
                             " owners: schedule ", plan.schedule, " knows forward and backward with one owner each"));
  const int settled = steadies_to_settle(plan) + 1;
  for (int n = 0; n <= settled + 1; ++n) {
    const int microbatches = (n + steadies_in_drain(plan)) * plan.microbatches;
    if (auto found = check_program(plan, flow, unrolled(plan, n), microbatches)) return found;
  }
  if (pipeline_after(plan, flow, settled) != pipeline_after(plan, flow, settled + 1))
    return whole_plan("program steady leaves the pipeline in another state than it found it in");
  return std::nullopt;
}

// --- Memory -------------------------------------------------------------

std::optional<Defect> check_memory(const Plan& plan) {
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  for (Rank rank = 0; rank < std::ssize(plan.cluster.ranks); ++rank) {
    const MemoryUse use = memory_use(plan, rank);
    const std::int64_t limit = plan.cluster.ranks[at(rank)].memory_bytes;
    if (use.total() <= limit) continue;
    return whole_plan(
        text("rank ", rank, " needs ", gib(use.total()), " GiB (parameters ", gib(use.parameters), ", gradients ",
             gib(use.gradients), ", momentum ", gib(use.optimizer_state), ", fetched weights ",
             gib(use.fetched_weights), ", buffers ", gib(use.buffers), ", workspace ", gib(use.workspace),
             "), but it has ", gib(limit), ": use more ranks or fewer micro-batches in flight"),
        rank);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Defect> verify(const Plan& plan) {
  if (plan.programs.empty()) return whole_plan("the plan is a partition without a schedule: it cannot be run");
  if (const std::string reason = stage_fault(plan); !reason.empty()) return whole_plan(reason);
  const DataFlow flow(plan);
  if (auto found = check_transfers(plan, flow)) return found;
  if (auto found = check_programs(plan)) return found;
  if (asynchronous(plan)) {
    if (auto found = check_asynchronous(plan, flow)) return found;
    if (auto found = check_program(plan, flow, program(plan, "evaluate"), plan.microbatches)) return found;
  } else {
    for (const Program& program : plan.programs)
      if (auto found = check_program(plan, flow, program, plan.microbatches)) return found;
  }
  return check_memory(plan);
}

std::string to_string(const Defect& defect) {
  if (defect.program.empty()) return defect.reason;
  return text("program ", defect.program, ", rank ", defect.rank, ", instruction ", defect.instruction, " (",
              defect.cell, "): ", defect.reason, '\n', defect.grid);
}

}  // namespace sluice
