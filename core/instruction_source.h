#pragma once

#include <string>
#include <vector>

#include "core/index.h"
#include "core/plan.h"

namespace sluice {

/// A program, rank by rank and on demand: stored lists, or made while they run.
class InstructionSource {
 public:
  virtual ~InstructionSource() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The rank's next instruction, null at its end; valid until the next call for this rank.
  [[nodiscard]] virtual const Instruction* next(Rank rank) = 0;
};

/// A stored program, which must outlive this.
class ProgramSource final : public InstructionSource {
 public:
  explicit ProgramSource(const Program& program) : program_(program), next_(program.ranks.size(), 0) {}

  [[nodiscard]] const std::string& name() const override { return program_.name; }
  [[nodiscard]] const Instruction* next(Rank rank) override {
    const std::vector<Instruction>& list = program_.ranks[at(rank)];
    std::size_t& next = next_[at(rank)];
    return next < list.size() ? &list[next++] : nullptr;
  }

 private:
  const Program& program_;
  std::vector<std::size_t> next_;  // by rank
};

}  // namespace sluice
