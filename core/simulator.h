#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/cost_model.h"
#include "core/instruction_source.h"
#include "core/timeline.h"

namespace sluice {

/// When would each instruction of a program start and end? Computes take
/// instruction_time; each move of a collective (core/moves.h) waits for both ends' starts, for
/// the moves that hold it up (core/move_order.h) and for its links, which serve one message at a time in order of
/// readiness: inside a node the sender's outgoing and the receiver's incoming link, between nodes the two NICs, each
/// direction on its own; it then takes message_time by its algorithm's costs, and holds its links that long. An
/// all-reduce by ring is not played move by move: it begins once all members have started and the links of all edges of
/// its ring are free; each edge then holds its links for ring_time, and all are done after collective_time. Times are
/// rounded to whole nanoseconds one by one. Peak memory is memory_use: all is allocated once.
/// @param plan  must have passed verify()
/// @throws Error (runtime fault) if the program stalls, (bad input) if it takes more than 100 years.
[[nodiscard]] Timeline simulate(const Plan& plan, const std::string& program = "step");
[[nodiscard]] Timeline simulate(const Plan& plan, const Program& program);

/// Told what happens in a simulation: each rank's instructions in their order, as they end.
class SimulationSink {
 public:
  virtual ~SimulationSink() = default;
  virtual void ran(Rank rank, const Instruction& instruction, const InstructionTime& time) = 0;
  virtual void sent(const Edge& edge, LinkKind kind, std::int64_t bytes) = 0;
};

/// The same for a program that need not be stored, each time handed over at once: memory grows with the ranks,
/// the plan's tables and the calls in flight, not with the instructions.
/// @param plan  its programs are not looked at
void simulate(const Plan& plan, InstructionSource& source, SimulationSink& sink);

/// What is left of a timeline if nothing is kept per instruction.
class SimulationTotals final : public SimulationSink {
 public:
  explicit SimulationTotals(int ranks)
      : compute_ns_(static_cast<std::size_t>(ranks), 0), computes_(compute_ns_.size()) {}

  void ran(Rank rank, const Instruction& instruction, const InstructionTime& time) override;
  void sent(const Edge& edge, LinkKind kind, std::int64_t bytes) override;

  [[nodiscard]] std::int64_t instructions() const { return instructions_; }
  [[nodiscard]] std::int64_t makespan_ns() const { return makespan_ns_; }
  [[nodiscard]] std::int64_t compute_ns(Rank rank) const { return compute_ns_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const LinkBytes& sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] double bubble_fraction() const;  ///< as of a timeline

 private:
  std::int64_t instructions_ = 0;
  std::int64_t makespan_ns_ = 0;
  std::vector<std::int64_t> compute_ns_;  // by rank
  std::vector<bool> computes_;            // by rank: at all
  LinkBytes sent_bytes_{};
};

}  // namespace sluice
