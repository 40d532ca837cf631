#include "optimizer/schedule/zero_bubble.h"

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

/// The owners of the stages at positions `k` and its mirror; a V has one.
std::vector<Rank> owners_at(const Plan& plan, int k, int mirror) {
  std::vector<Rank> owners;
  for (const Stage& stage : plan.stages)
    if (stage.index == k || stage.index == mirror)
      owners.insert(owners.end(), stage.owners.begin(), stage.owners.end());
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

void require_vee(const Plan& plan, const std::vector<Position>& positions) {
  const int depth = static_cast<int>(positions.size());
  const auto refuse = [](const std::string& why) {
    return infeasible(text("schedule zb-v ", why, ": use joint cuts or zb-h1"));
  };
  if (depth % 2 != 0) throw refuse(text("wants two positions on every rank, not ", depth, " in all"));
  for (int k = 0; k < depth / 2; ++k)
    if (owners_at(plan, k, depth - 1 - k).size() != 1)
      throw refuse(text("wants all of positions ", k, " and ", depth - 1 - k, " on one rank"));
  for (int k = 0; k < depth; ++k)
    if (const int follows = positions[at(k)].weight_follows; follows != kNone && follows < k)
      throw refuse(text("runs backward-weight right behind backward-input, but that of position ", k,
                        " needs what position ", follows, " makes in backward"));
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
  require_vee(plan, positions);
  const int ranks = static_cast<int>(positions.size()) / 2;
  FigureWriter write(plan, std::move(positions));
  for (int r = 0; r < ranks; ++r) write_row(write, r, ranks, std::max(plan.microbatches, 2 * ranks - 1));
  write.updates();
  return write.take();
}

}  // namespace sluice
