#pragma once

#include <optional>
#include <string>

#include "core/plan.h"

namespace sluice {

/// Why a plan is refused.
struct Defect {
  std::string program;      ///< empty if no program in particular
  Rank rank = kNone;        ///< kNone if the plan as a whole is at fault (a layer without owner)
  int instruction = kNone;  ///< the length of the rank's list: at its end something is missing
  std::string reason;       ///< one sentence
  std::string cell;         ///< of the instruction: "1B3"; "end" at the list's end
  std::string grid;         ///< rank x step cells around the place, the failing one in [brackets]
};

/// Walks a plan's programs under rendezvous semantics and checks: its stages are
/// without fault (core/stage_check.h); every (stage, micro-batch) runs exactly
/// once at its owner and in ascending order; every tensor is there when it is
/// used, and recomputed where the plan says so; replicas sum their gradients
/// before they update; collectives of a group match in order, transfer and
/// micro-batch; every start has its wait; weights are not used while they are
/// replaced; nothing waits for ever; each rank's memory fits.
///
/// Semantics: a start never blocks. A member's wait ends when it has received and sent all that it
/// has to (core/moves.h); a message between two members moves once the sender holds its part and both have
/// started. An all-reduce ends at all members once all have started. A value or weights may not be
/// touched between start and wait of their receive, gradients not between start and wait of their all-reduce. The
/// weights that a step starts with serve all of its forwards and backwards; at its end every rank that runs a layer has
/// the updated ones. "evaluate" runs forwards only. The first error found is returned.
///
/// Asynchronous plans are walked as fill, some runs of steady, and drain (core/asynchronous.h): a compute uses the
/// version of the weights that the schedule's formula gives its micro-batch, and it is there; an optimizer step makes
/// the next version; a version whose slot is reused is gone; and a run of steady leaves the pipeline as it found it,
/// shifted, so that a few runs decide about all numbers of them. The program named is then "fill, 2 x steady, drain".
/// @param plan  must have passed validate()
[[nodiscard]] std::optional<Defect> verify(const Plan& plan);

/// "program step, rank 2, instruction 17 (1B3): reason" and the grid below it.
[[nodiscard]] std::string to_string(const Defect& defect);

}  // namespace sluice
