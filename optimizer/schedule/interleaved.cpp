#include "optimizer/schedule/interleaved.h"

#include <algorithm>
#include <utility>

#include "core/schedule.h"

namespace sluice {
namespace {

using Cell = std::pair<int, int>;  // position, micro-batch

/// What rank k runs of one direction. Groups are as even as can be: the first ones have one more.
std::vector<Cell> cells(int k, int ranks, int chunks, int microbatches, bool forward) {
  const int groups = std::max(1, microbatches / ranks);
  std::vector<Cell> cells;
  int first = 0;
  for (int group = 0; group < groups; ++group) {
    const int end = first + microbatches_of(group, groups, microbatches);
    for (int c = 0; c < chunks; ++c)
      for (int m = first; m < end; ++m) cells.emplace_back((forward ? c : chunks - 1 - c) * ranks + k, m);
    first = end;
  }
  return cells;
}

}  // namespace

Figure interleaved(const Plan& plan, std::vector<Position> positions) {
  const int ranks = pipeline_ranks(plan), chunks = static_cast<int>(positions.size()) / ranks;
  FigureWriter write(plan, std::move(positions));
  for (int k = 0; k < ranks; ++k) {
    const std::vector<Cell> forwards = cells(k, ranks, chunks, plan.microbatches, true);
    const std::vector<Cell> backwards = cells(k, ranks, chunks, plan.microbatches, false);
    const int all = chunks * plan.microbatches;
    const int warmup = std::min(all, 2 * (ranks - 1 - k) + (chunks - 1) * interleaved_group(plan.microbatches, ranks));
    const auto forward = [&](int i) { write.forward(forwards[at(i)].first, forwards[at(i)].second); };
    const auto backward = [&](int i) {
      write.backward(backwards[at(i)].first, backwards[at(i)].second);
      write.backward_weight(backwards[at(i)].first, backwards[at(i)].second);
    };
    for (int i = 0; i < warmup; ++i) forward(i);
    for (int i = warmup; i < all; ++i) {
      forward(i);
      backward(i - warmup);
    }
    for (int i = all - warmup; i < all; ++i) backward(i);
  }
  write.updates();
  return write.take();
}

}  // namespace sluice
