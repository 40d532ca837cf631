#include "tests/unit/schedule/damage.h"

#include <algorithm>
#include <array>

#include "core/asynchronous.h"
#include "core/index.h"
#include "core/text.h"

namespace sluice {
namespace {

class Damage {
 public:
  Damage(const Plan& plan, Program& program, std::mt19937_64& random)
      : plan_(plan), program_(program), random_(random) {}

  /// @return what was done; empty if the draw had nothing to work on
  std::string apply() {
    rank_ = below(static_cast<int>(program_.ranks.size()));
    list_ = &program_.ranks[at(rank_)];
    if (list_->empty()) return {};
    i_ = below(static_cast<int>(list_->size()));
    switch (below(asynchronous(plan_) ? 12 : 11)) {
      case 0:
        return drop();
      case 1:
        return duplicate();
      case 2:
      case 3:
        return swap(std::min(i_ + 1, static_cast<int>(list_->size()) - 1));
      case 4:
        return swap(below(static_cast<int>(list_->size())));
      case 5:
        return move();
      case 6:
        return retarget_rank();
      case 7:
        return retarget_microbatch();
      case 8:
        return retarget_transfer();
      case 9:
        return drop_multicast();
      case 11:
        return retarget_version();
      default:
        return retarget_stage();
    }
  }

 private:
  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
  Instruction& victim() { return (*list_)[at(i_)]; }
  std::string what(const char* kind) {
    return text(kind, " rank ", rank_, ", instruction ", i_, " ", cell(plan_, victim()));
  }
  void insert(int rank, int index, const Instruction& instruction) {
    std::vector<Instruction>& list = program_.ranks[at(rank)];
    list.insert(list.begin() + index, instruction);
  }

  std::string drop() {
    const std::string done = what("drop");
    list_->erase(list_->begin() + i_);
    return done;
  }

  /// The whole call, at all its members.
  std::string drop_multicast() {
    if (victim().transfer == kNone) return {};
    const std::string done = what("drop everywhere");
    const Instruction dropped = victim();
    for (std::vector<Instruction>& list : program_.ranks)
      std::erase_if(list, [&](const Instruction& instruction) {
        return instruction.transfer == dropped.transfer && instruction.microbatch == dropped.microbatch;
      });
    return done;
  }

  std::string duplicate() {
    const std::string done = what("duplicate");
    insert(rank_, below(static_cast<int>(list_->size()) + 1), Instruction(victim()));
    return done;
  }

  std::string swap(int other) {
    const std::string done = text(what("swap"), " with ", other, " ", cell(plan_, (*list_)[at(other)]));
    std::swap(victim(), (*list_)[at(other)]);
    return done;
  }

  std::string move() {
    const Instruction moved = victim();
    const std::string done = what("move");
    list_->erase(list_->begin() + i_);
    insert(rank_, std::clamp(i_ + below(9) - 4, 0, static_cast<int>(list_->size())), moved);
    return done;
  }

  std::string retarget_rank() {
    const int other = below(static_cast<int>(program_.ranks.size()));
    const Instruction moved = victim();
    const std::string done = text(what("retarget"), " to rank ", other);
    list_->erase(list_->begin() + i_);
    insert(other, below(static_cast<int>(program_.ranks[at(other)].size()) + 1), moved);
    return done;
  }

  std::string retarget_microbatch() {
    if (victim().microbatch == kNone) return {};
    const std::string done = what("retarget micro-batch of");
    victim().microbatch = below(plan_.microbatches);
    return done;
  }

  std::string retarget_transfer() {
    if (victim().transfer == kNone) return {};
    const std::string done = what("retarget transfer of");
    victim().transfer = below(static_cast<int>(plan_.transfers.size()));
    const bool per_step = of_layer(plan_.transfers[at(victim().transfer)].payload);
    if (asynchronous(plan_)) return done;
    if (per_step) victim().microbatch = kNone;
    if (!per_step && victim().microbatch == kNone) victim().microbatch = below(plan_.microbatches);
    return done;
  }

  std::string retarget_version() {
    const std::string done = what("retarget version of");
    victim().version += std::array{-2, -1, 1, 2}[at(below(4))];
    return done;
  }

  std::string retarget_stage() {
    if (victim().stage == kNone) return {};
    const std::string done = what("retarget stage of");
    victim().stage = below(static_cast<int>(plan_.stages.size()));
    return done;
  }

  const Plan& plan_;
  Program& program_;
  std::mt19937_64& random_;
  Rank rank_ = 0;
  std::vector<Instruction>* list_ = nullptr;
  int i_ = 0;
};

}  // namespace

std::string damage(const Plan& plan, Program& program, std::mt19937_64& random) {
  std::string done;
  while (done.empty()) done = Damage(plan, program, random).apply();
  return done;
}

}  // namespace sluice
