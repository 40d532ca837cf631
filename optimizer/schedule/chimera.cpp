#include "optimizer/schedule/chimera.h"

#include <utility>

#include "core/division.h"
#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

/// Which of its micro-batches a pipeline takes `slot` slots after its first: one in every second slot of the first half
/// of a unit.
int microbatch_after(int slot, int ranks) {
  const int unit = slot / (2 * ranks), within = slot % (2 * ranks);
  if (slot < 0 || within >= ranks || within % 2 == 1) return kNone;
  return unit * ranks / 2 + within / 2;
}

}  // namespace

Figure chimera(const Plan& plan, std::vector<Position> positions) {
  const int ranks = static_cast<int>(positions.size());
  if (ranks % 2 == 1)
    throw infeasible(text("schedule chimera needs an even number of ranks, but the pipeline has ", ranks,
                          ": leave one out with --ranks, or use 1f1b"));
  FigureWriter write(plan, std::move(positions));
  const int units = divided_up(plan.microbatches, ranks);
  for (int slot = 0; slot < 2 * ranks * units + ranks; ++slot)
    for (int k = 0; k < ranks; ++k)
      for (const int replica : {0, 1}) {
        if (const int i = microbatch_after(slot - k, ranks); i != kNone) write.forward(k, 2 * i + replica);
        if (const int i = microbatch_after(slot - (2 * ranks - 1 - k), ranks); i != kNone) {
          write.backward(k, 2 * i + replica);
          write.backward_weight(k, 2 * i + replica);
        }
      }
  write.updates();
  return write.take();
}

}  // namespace sluice
