#include "optimizer/schedule/stream.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <utility>

#include "core/cost_model.h"
#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

/// What the instructions of a position name; kNone where there is none.
struct Line {
  int forward = kNone, backward = kNone;                    // stages
  int activation_in = kNone, activation_out = kNone;        // transfers
  int gradient_in = kNone, gradient_out = kNone;            // likewise
  std::vector<Op> forward_loads = {}, backward_loads = {};  // in front of these
};

Error no_line(Rank rank, const std::string& why) {
  return infeasible(text("rank ", rank, " ", why,
                         ": streams are for lines, where position k runs forward and backward ",
                         "of its layers on rank k and talks to its neighbours; store the plan instead"));
}

/// Reads a position off the program of a single micro-batch.
class LineReader {
 public:
  LineReader(const Plan& plan, Rank rank) : plan_(plan), rank_(rank) {}

  Line read(const std::vector<Instruction>& list) {
    for (const Instruction& instruction : list) take(instruction);
    if (line_.forward == kNone || line_.backward == kNone) throw no_line(rank_, "lacks a forward or a backward");
    return line_;
  }

 private:
  void take(const Instruction& instruction) {
    switch (instruction.op) {
      case Op::load_input:
      case Op::load_labels:
        return (line_.forward == kNone ? line_.forward_loads : line_.backward_loads).push_back(instruction.op);
      case Op::forward:
        return set_stage(line_.forward, instruction.stage);
      case Op::backward:
        return set_stage(line_.backward, instruction.stage);
      case Op::optimizer_step:
      case Op::multicast_wait:
        return;
      case Op::multicast_start:
        return take_transfer(instruction.transfer);
      default:
        throw no_line(rank_, text("runs ", cell(plan_, instruction)));
    }
  }

  void set_stage(int& known, int stage) const {
    if (plan_.stages[at(stage)].index != rank_) throw no_line(rank_, "runs another position");
    known = stage;
  }

  void take_transfer(int index) {
    const Transfer& transfer = plan_.transfers[at(index)];
    const Group& group = plan_.groups[at(transfer.group)];
    const bool sends = group.root == rank_;
    const bool forward = transfer.payload == Payload::activation;
    const Rank neighbour = forward == sends ? rank_ + 1 : rank_ - 1;
    int& known = forward ? (sends ? line_.activation_out : line_.activation_in)
                         : (sends ? line_.gradient_out : line_.gradient_in);
    const bool is_theirs = group.members == std::vector<Rank>{std::min(rank_, neighbour), std::max(rank_, neighbour)};
    if (of_layer(transfer.payload) || known != kNone || !is_theirs)
      throw no_line(rank_, text("takes part in transfer ", index, " of ", to_string(transfer.payload)));
    known = index;
  }

  const Plan& plan_;
  const Rank rank_;
  Line line_;
};

// --- Program ------------------------------------------------------------

/// When something runs, were communication free, and where: what the linear order sorts by.
struct Key {
  std::int64_t start_ns = 0;
  Rank rank = 0;
  auto operator<=>(const Key&) const = default;
};

struct LineShape {
  int positions = 0;     // K
  int microbatches = 0;  // M
  bool flushed = false;  // gpipe: all forwards, then all backwards
  int receive_ahead = 1;
  std::int64_t forward_ns = 0, backward_ns = 0;
};

class LineProgram final : public InstructionSource {
 public:
  LineProgram(const LineShape& shape, std::vector<Line> lines)
      : shape_(shape), lines_(std::move(lines)), ranks_(lines_.size()) {}

  [[nodiscard]] const std::string& name() const override { return name_; }

  [[nodiscard]] const Instruction* next(Rank rank) override {
    if (rank >= shape_.positions) return nullptr;
    RankState& state = ranks_[at(rank)];
    if (state.taken == state.batch.size()) {
      if (state.index > length()) return nullptr;
      state.batch.clear();
      state.taken = 0;
      fill(rank, state);
      ++state.index;
      if (state.batch.empty()) return nullptr;
    }
    return &state.batch[state.taken++];
  }

 private:
  struct RankState {
    int index = 0;        // of the compute in front of which the batch stands
    int activations = 0;  // receives started
    int gradients = 0;
    std::vector<Instruction> batch;
    std::size_t taken = 0;
  };

  enum class Cell { forward, backward, update };
  struct Compute {
    Cell cell = Cell::update;
    int microbatch = kNone;
  };

  [[nodiscard]] int length() const { return 2 * shape_.microbatches + 1; }

  /// The index-th compute of position k: forwards to warm up, one forward and one backward in turn, backwards.
  [[nodiscard]] Compute compute(int k, int index) const {
    const int m = shape_.microbatches;
    const int warmup = shape_.flushed ? m : std::min(m, shape_.positions - 1 - k);
    if (index == 2 * m) return {};
    if (index < warmup) return {Cell::forward, index};
    if (index >= 2 * m - warmup) return {Cell::backward, index - m};
    const int turn = index - warmup;
    return turn % 2 == 0 ? Compute{Cell::forward, warmup + turn / 2} : Compute{Cell::backward, turn / 2};
  }

  [[nodiscard]] Key forward_key(int k, int m) const {
    const auto [positions, microbatches, flushed, ahead, f, b] = shape_;
    if (flushed || m < positions - k) return {std::int64_t{k + m} * f, k};
    return {positions * f + std::int64_t{m - positions + k} * (f + b) + (positions - k) * b, k};
  }

  [[nodiscard]] Key backward_key(int k, int m) const {
    const auto [positions, microbatches, flushed, ahead, f, b] = shape_;
    const std::int64_t last_ns =
        flushed ? std::int64_t{positions - 1 + microbatches} * f + m * b : positions * f + m * (f + b);
    return {last_ns + (positions - 1 - k) * b, k};
  }

  [[nodiscard]] Key key(int k, int index) const {
    const auto [cell, m] = compute(k, index);
    if (cell == Cell::forward) return forward_key(k, m);
    if (cell == Cell::backward) return backward_key(k, m);
    return {backward_key(k, shape_.microbatches - 1).start_ns + shape_.backward_ns, k};
  }

  /// Lowering (optimizer/schedule/lowering.h): what stands in front of a compute, and the compute.
  void fill(int k, RankState& state) {
    add_starts(k, state);
    const Line& line = lines_[at(k)];
    const auto [cell, m] = state.index < length() ? compute(k, state.index) : Compute{};
    if (cell != Cell::update)
      for (const Op load : cell == Cell::forward ? line.forward_loads : line.backward_loads)
        state.batch.push_back({.op = load, .microbatch = m});
    add_waits(k, state);
    if (state.index == length()) return;
    if (cell == Cell::update)
      state.batch.push_back({.op = Op::optimizer_step, .stage = line.backward});
    else if (cell == Cell::forward)
      state.batch.push_back({.op = Op::forward, .stage = line.forward, .microbatch = m});
    else
      state.batch.push_back({.op = Op::backward, .stage = line.backward, .microbatch = m});
  }

  struct Communication {
    Key made;  // when the payload is
    int transfer = kNone;
    int microbatch = kNone;
  };

  /// What the index-th compute sends.
  [[nodiscard]] Communication sent_by(int k, int index) const {
    if (index < 0 || index >= length()) return {};
    const auto [cell, m] = compute(k, index);
    if (cell == Cell::update) return {};
    return {key(k, index), cell == Cell::forward ? lines_[at(k)].activation_out : lines_[at(k)].gradient_out, m};
  }

  /// What it receives.
  [[nodiscard]] Communication received_by(int k, int index) const {
    if (index >= length()) return {};
    const auto [cell, m] = compute(k, index);
    if (cell == Cell::forward && k > 0) return {forward_key(k - 1, m), lines_[at(k)].activation_in, m};
    if (cell == Cell::backward && k + 1 < shape_.positions)
      return {backward_key(k + 1, m), lines_[at(k)].gradient_in, m};
    return {};
  }

  /// The send of what the compute before made, and the receives that start receive_ahead computes ahead.
  void add_starts(int k, RankState& state) {
    const Line& line = lines_[at(k)];
    const int ahead = state.index + 1 + shape_.receive_ahead;
    const Key limit = ahead < length() ? key(k, ahead) : Key{std::numeric_limits<std::int64_t>::max(), k};
    due_ = {sent_by(k, state.index - 1)};
    for (int& m = state.activations; k > 0 && m < shape_.microbatches && forward_key(k - 1, m) < limit; ++m)
      due_.push_back({forward_key(k - 1, m), line.activation_in, m});
    for (int& m = state.gradients;
         k + 1 < shape_.positions && m < shape_.microbatches && backward_key(k + 1, m) < limit; ++m)
      due_.push_back({backward_key(k + 1, m), line.gradient_in, m});
    add_due(state, Op::multicast_start);
  }

  /// What was sent one compute ago, and what the next one reads; at the end all that is left.
  void add_waits(int k, RankState& state) {
    due_ = {sent_by(k, state.index - 2), received_by(k, state.index)};
    if (state.index == length()) due_.push_back(sent_by(k, state.index - 1));
    add_due(state, Op::multicast_wait);
  }

  void add_due(RankState& state, Op op) {
    std::sort(due_.begin(), due_.end(), [](const auto& a, const auto& b) { return a.made < b.made; });
    for (const Communication& c : due_)
      if (c.transfer != kNone) state.batch.push_back({.op = op, .transfer = c.transfer, .microbatch = c.microbatch});
  }

  const LineShape shape_;
  const std::vector<Line> lines_;
  const std::string name_ = "step";
  std::vector<RankState> ranks_;
  std::vector<Communication> due_;
};

/// At least 1 ns: the closed forms need every instruction to take time.
std::int64_t span_ns(double seconds) { return std::max<std::int64_t>(1, std::llround(seconds * 1e9)); }

}  // namespace

StreamedPlan stream_plan(PlanRequest request) {
  if (request.schedule != "1f1b" && request.schedule != "gpipe")
    throw infeasible(text("schedule ", request.schedule, " cannot be streamed: use 1f1b or gpipe, or store the plan"));
  if (request.data_reader != kNone)
    throw infeasible("plans in which one rank reads the data for all cannot be streamed: store the plan instead");
  if (request.microbatches < 1) throw bad_input(text(request.microbatches, " micro-batches, expected at least 1"));
  const int microbatches = std::exchange(request.microbatches, 1);
  StreamedPlan streamed{build_plan(std::move(request)), nullptr};
  Plan& plan = streamed.plan;
  std::vector<Line> lines;
  for (const std::vector<Instruction>& list : program(plan, "step").ranks)
    if (!list.empty()) lines.push_back(LineReader(plan, static_cast<Rank>(lines.size())).read(list));
  plan.programs.clear();
  plan.microbatches = microbatches;
  const auto time_of = [&](Op op, int stage) {
    return span_ns(instruction_time(plan, {.op = op, .stage = stage, .microbatch = 0}, 0));
  };
  const LineShape shape{.positions = static_cast<int>(lines.size()),
                        .microbatches = microbatches,
                        .flushed = plan.schedule == "gpipe",
                        .receive_ahead = plan.receive_ahead,
                        .forward_ns = time_of(Op::forward, lines.front().forward),
                        .backward_ns = time_of(Op::backward, lines.front().backward)};
  streamed.step = std::make_unique<LineProgram>(shape, std::move(lines));
  return streamed;
}

}  // namespace sluice
