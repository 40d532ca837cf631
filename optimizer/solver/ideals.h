#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/solver/work_graph.h"

namespace sluice {

/// The ideals of a work graph: sets of units that hold all predecessors of their
/// units. They are found from the full set downwards, as somebody asks for
/// them, and numbered in that order.
class IdealLattice {
 public:
  /// Without `unit`, an ideal is the ideal `below`.
  struct Step {
    int unit = 0;
    int below = 0;
  };

  /// @param most  so many ideals at most; below() throws Error (infeasible) when it would need more
  IdealLattice(const WorkGraph& graph, std::int64_t most);

  static constexpr int kFull = 0;
  /// One for each maximal unit. The span lives until the next call.
  [[nodiscard]] std::span<const Step> below(int ideal);
  [[nodiscard]] int units_in(int ideal) const { return size_[at(ideal)]; }
  [[nodiscard]] bool holds(int ideal, int unit) const;
  /// Calls `visit(unit, comes)` with each unit that only one of two ideals holds.
  template <typename Visit>
  void for_each_difference(int from, int to, const Visit& visit) const {
    for (std::size_t w = 0; w < words_; ++w)
      for (Word bits = members(from)[w] ^ members(to)[w]; bits != 0; bits &= bits - 1) {
        const int unit = static_cast<int>(w) * kBits + std::countr_zero(bits);
        visit(unit, holds(to, unit));
      }
  }
  [[nodiscard]] int count() const { return static_cast<int>(size_.size()); }

 private:
  using Word = std::uint64_t;
  static constexpr int kBits = 64;  ///< of a word
  /// How an ideal was first found.
  struct Origin {
    int above = kNone;
    int unit = kNone;
  };
  struct Steps {
    std::int64_t first = 0;  ///< index into steps_
    int count = kNone;       ///< kNone: not asked for yet
  };
  void find_steps(int ideal);
  [[nodiscard]] bool is_maximal(int ideal, int unit) const;
  [[nodiscard]] int without(int ideal, int unit);
  [[nodiscard]] std::size_t place_of(const Word* members, Word hash) const;
  void enlarge_table();
  [[nodiscard]] const Word* members(int ideal) const { return &members_[at(ideal) * words_]; }

  const WorkGraph* graph_;
  std::vector<std::vector<int>> predecessors_;
  std::int64_t most_;
  std::size_t words_;          ///< of a bit set of units
  std::vector<Word> members_;  ///< words_ per ideal
  std::vector<Word> hash_;     ///< by ideal: the keys of its units, combined
  std::vector<Word> key_;      ///< by unit
  std::vector<int> size_;      ///< by ideal
  std::vector<Origin> origin_;
  std::vector<Steps> steps_of_;
  std::vector<Step> steps_;
  std::vector<int> table_;  ///< open addressing: ideals by hash
  std::vector<Word> scratch_;
};

}  // namespace sluice
