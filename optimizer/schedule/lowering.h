#pragma once

#include "optimizer/schedule/asynchronous.h"
#include "optimizer/schedule/figure.h"

namespace sluice {

/// Completes a figure to a program: the only place that inserts loads and
/// communication. Appends the groups and transfers that it needs to the plan's
/// tables (equal ones are shared between programs).
///
/// Each consumer of the dataset loads for itself, or Plan::data_reader for all
/// (reader_loads.h). Every value that other ranks
/// read travels in one multicast from the rank that made it to all of them;
/// values without bytes too, so that order never depends on sizes. What a rank
/// recomputes it receives for its forward at most.
/// Replicas sum the gradients of each layer with parameters before they update
/// it. Afterwards the weights go to the other ranks that run the layer, to each
/// from an owner on its own node if there is one, else from the first owner.
/// Weights that a forward stage fetches travel before it runs instead, in every program, and only while the receiver
/// holds those of fewer than kFetchedStagesHeld other stages.
/// @param plan  stages, profile, cluster, microbatches and receive_ahead are set
[[nodiscard]] Program lower(Plan& plan, const std::string& name, const Figure& figure);

/// A rank's part of an endless figure: its instructions, and where its periods begin among them. Receives for them that
/// start before stand before the mark, and so do the starts of sends of what the period before made.
struct LoweredRank {
  std::vector<Instruction> list;
  std::vector<int> marks;
};

/// Likewise for an asynchronous schedule. Every version of the weights is sent to those who keep it; a receive starts
/// once the last micro-batch of the update has run forward on its rank (which then needs the oldest version no more),
/// and is waited for before the first use.
[[nodiscard]] std::vector<LoweredRank> lower(Plan& plan, EndlessFigure figure);

}  // namespace sluice
