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
  std::map<std::pair<Rank, LayerId>, Symbol> weights;              ///< of every layer at every rank that keeps it
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
/// synchronous: it completes only once its receive has started. Multicasts travel by the moves of their transfers'
/// routes, part by part: a member passes on what it has, and has the payload when all bytes are there. Sums are sums of
/// numbers, so that they do not depend on who adds what first. Faults are a
/// stall, a value that is missing, in flight, written twice or (where a stage has
/// a recompute stage) not recomputed, weights touched while in flight, gradients
/// touched while replicas sum them, fetched weights missing (not there yet, or not any more), starts and waits that do
/// not pair up, and members that start a group's collectives in different order.
/// Asynchronous plans: of an unrolled program (core/asynchronous.h); besides, faults are a version that is not held, in
/// flight or not the micro-batch's, one replaced while it travels, and updates out of turn.
/// Shares nothing with verifier and simulator but the plan's tables and multicast_moves.
[[nodiscard]] Outcome interpret(const Plan& plan, const Program& program, std::uint64_t seed);

/// The weights of every layer with parameters after so many micro-batches of an asynchronous schedule, computed from
/// the profile and from the formulas of Narayanan et al. 2019 and 2021 for the layers' positions, one micro-batch after
/// the other: never from the plan's programs.
[[nodiscard]] std::map<LayerId, Symbol> expected_late_weights(const Plan& plan, int microbatches);

/// The weights of every layer with parameters after one step, computed layer by
/// layer from the profile alone: what every plan must end with at every rank.
[[nodiscard]] std::map<LayerId, Symbol> expected_weights(const Profile& profile, int microbatches);

}  // namespace sluice::interpreter
