#include "optimizer/schedule/zero_bubble.h"

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

void require_weights_at_hand(const std::vector<Position>& positions) {
  for (int k = 0; k < std::ssize(positions); ++k)
    if (const int follows = positions[at(k)].weight_follows; follows != kNone && follows < k)
      throw infeasible(text("schedule zb-v runs backward-weight right behind backward-input, but that of position ", k,
                            " needs gradients of position ", follows, ": use --cuts independent, or zb-h1"));
}

/// One of a rank's two positions: each work runs micro-batch after micro-batch.
class Chunk {
 public:
  Chunk(FigureWriter& write, int position) : write_(write), position_(position) {}
  void F() { write_.forward(position_, forwards_++); }
  void B() { write_.backward(position_, backwards_++); }
  void W() { write_.backward_weight(position_, weights_++); }

 private:
  FigureWriter& write_;
  int position_;
  int forwards_ = 0, backwards_ = 0, weights_ = 0;
};

/// Row r of the figure for `ranks` ranks; forwards run on beyond the last micro-batch, where the writer drops them.
void write_row(FigureWriter& write, int r, int ranks, int microbatches) {
  Chunk down(write, r), up(write, 2 * ranks - 1 - r);
  const auto repeat = [](int times, const auto& cells) {
    while (times-- > 0) cells();
  };
  repeat(2 * (ranks - r) - 1, [&] { down.F(); });
  repeat(r, [&] { up.F(), down.F(); });
  repeat(ranks - r, [&] { up.F(), up.B(), up.W(); });
  repeat(microbatches - ranks, [&] { down.F(), down.B(), down.W(), up.F(), up.B(), up.W(); });
  repeat(r, [&] { down.B(), up.B(); });
  repeat(ranks - r, [&] { down.B(), down.W(); });
  repeat(r, [&] { up.W(); });
  repeat(r, [&] { down.W(); });
}

}  // namespace

Figure zb_v(const Plan& plan, std::vector<Position> positions) {
  require_weights_at_hand(positions);
  const int ranks = pipeline_ranks(plan);
  FigureWriter write(plan, std::move(positions));
  for (int r = 0; r < ranks; ++r) write_row(write, r, ranks, std::max(plan.microbatches, 2 * ranks - 1));
  write.updates();
  return write.take();
}

}  // namespace sluice
