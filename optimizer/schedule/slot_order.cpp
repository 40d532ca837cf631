#include "optimizer/schedule/slot_order.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {

Figure slot_order(const Plan& plan, std::vector<Position> positions) {
  const int depth = static_cast<int>(positions.size());
  int slots = plan.microbatches;
  for (const Position& position : positions)
    slots = std::max(slots, plan.microbatches + std::max(position.backward_delay, position.weight_delay));
  FigureWriter write(plan, positions);
  for (int slot = 0; slot < slots; ++slot) {
    for (int k = 0; k < depth; ++k) write.forward(k, slot);
    for (int k = depth - 1; k >= 0; --k) write.backward(k, slot - positions[at(k)].backward_delay);
    for (int k = 0; k < depth; ++k) write.backward_weight(k, slot - positions[at(k)].weight_delay);
  }
  write.updates();
  return write.take();
}

Figure sequential(const Plan& plan, std::vector<Position> positions) {
  if (positions.size() > 1)
    throw infeasible(text("schedule sequential runs on one worker, but the cuts make ", positions.size(),
                          ": use gpipe or 1f1b, or one rank"));
  return slot_order(plan, std::move(positions));
}

Figure waves_of_forwards(const Plan& plan, std::vector<Position> positions) {
  const int depth = static_cast<int>(positions.size());
  FigureWriter write(plan, std::move(positions));
  for (int wave = 0; wave < plan.microbatches + depth - 1; ++wave)
    for (int k = depth - 1; k >= 0; --k) write.forward(k, wave - k);
  return write.take();
}

}  // namespace sluice
