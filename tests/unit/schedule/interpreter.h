#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/plan.h"

namespace sluice::interpreter {

/// A number that stands for an expression: equal expressions, equal numbers.
using Symbol = std::uint64_t;

/// What a program leaves behind.
struct FinalState {
  std::map<std::pair<Rank, LayerId>, Symbol> weights;              ///< of every layer at every rank that runs it
  std::map<std::tuple<Rank, TensorId, int>, Symbol> results;       ///< tensors that no layer reads, by micro-batch
  std::map<std::tuple<Rank, Op, int>, std::vector<int>> work_log;  ///< by stage: micro-batches in order
  bool operator==(const FinalState&) const = default;
};

struct Outcome {
  std::string fault;  ///< empty if the program ran to its end without one
  FinalState state;
};

/// Judges a program by running it: every rank one instruction at a time, in an
/// interleaving drawn by `seed`, values as symbols, layer by layer. A send is
/// synchronous: it completes only once its receive has started. Faults are a
/// stall, a value that is missing, in flight or written twice, weights touched
/// while in flight, starts and waits that do not pair up, and members that start
/// a group's multicasts in different order.
/// Shares nothing with verifier and simulator but the plan's tables and multicast_edges.
[[nodiscard]] Outcome interpret(const Plan& plan, const Program& program, std::uint64_t seed);

}  // namespace sluice::interpreter
