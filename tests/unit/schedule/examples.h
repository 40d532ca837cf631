#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "optimizer/schedule/build_plan.h"
#include "tests/unit/schedule/partition.h"

namespace sluice::examples {

/// A chain of `layers` equal layers like the real ones: layer l reads the
/// output of l-1 (the first the network input, the last also the labels) and
/// leaves an auxiliary tensor; its backward reads its input and its auxiliary.
[[nodiscard]] Profile chain(int layers, double forward_s, double backward_s);

/// `layers` layers over `workers` workers, as even as can be, cuts joint.
[[nodiscard]] Partition even_partition(int layers, int workers);

/// One layer per position (two chunks if interleaved) of `workers` ranks with free links: the textbook pipeline.
[[nodiscard]] Plan textbook_plan(const std::string& schedule, int workers, int microbatches, double forward_s = 1e-9,
                                 double backward_s = 1e-9);

/// What the works of a position take; backward in halves.
struct WorkTimes {
  double forward_s = 1e-9, backward_input_s = 1e-9, backward_weight_s = 1e-9;
};

/// Likewise, with the positions where the schedule places them on its ranks: several layers a rank if it has several.
[[nodiscard]] Plan textbook_plan_in_halves(const std::string& schedule, int ranks, int microbatches,
                                           const WorkTimes& times = {});

/// What a list holds: "X0 0F0 +T0.0". And a rank's list of a program.
[[nodiscard]] std::string cells(const Plan& plan, const std::vector<Instruction>& list);
[[nodiscard]] std::string cells(const Plan& plan, const std::string& name, Rank rank);

/// A random plan: chain or DAG of at most 8 layers, real-like or foreign, at
/// most 5 positions and 9 micro-batches, stages of any layers that the DAG
/// allows, up to 3 replicas each, forward, backward and (sometimes) its halves
/// with layers and owners of their own, recompute stages, 1 to 3 uneven nodes, sometimes one rank that reads the
/// data for all, any algorithms, gpipe, 1f1b or sequential.
[[nodiscard]] Plan random_plan(std::uint64_t seed);

/// The stages of such a plan for a model.
[[nodiscard]] std::vector<Stage> random_stages(std::mt19937_64& random, const Model& model, int positions, int ranks);

/// A random plan of a schedule that places positions, or of one in a line: chain or DAG, joint or independent stages of
/// any layers that the DAG allows, often none at a position, whole backwards or (sometimes) halves, recompute stages,
/// up to 5 ranks, 4 chunks and 12 micro-batches.
[[nodiscard]] Plan random_placed_plan(const std::string& schedule, std::uint64_t seed);

/// A plan like random_plan's, but cooperative: the forward stages of several ranks run one after the other, and most of
/// them fetch their weights; backwards are whole.
[[nodiscard]] Plan random_cooperative_plan(std::uint64_t seed);

/// A plan like random_plan's, but worker k on rank k has an interval of forward and one of whole
/// backward, which may be empty; gpipe or 1f1b.
[[nodiscard]] Plan random_interval_plan(std::uint64_t seed);

/// Likewise under pipedream or pipedream-2bw.
[[nodiscard]] Plan random_asynchronous_plan(std::uint64_t seed);

}  // namespace sluice::examples
