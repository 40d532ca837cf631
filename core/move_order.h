#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/index.h"
#include "core/moves.h"

/// Which messages of a collective wait for which.
namespace sluice {

/// What one step reads (a send) or writes (a receive) of its rank's payload.
struct Access {
  bool reads = false;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  ///< nothing counts as a byte: it is a part of what begins at its place
};

/// Which accesses of one rank must wait: a read for earlier writes of what it reads, a write for earlier reads and
/// writes of what it overwrites. Waits that follow from others are left out, so that a list's worth of them is short.
class Conflicts {
 public:
  /// Calls report(earlier, later), once for each pair.
  template <typename Report>
  void find(std::span<const Access> accesses, Report report) {
    divide(accesses);
    for (int later = 0; later < std::ssize(accesses); ++later) {
      const auto tell = [&](int earlier) {
        if (std::exchange(told_[at(earlier)], later) != later) report(earlier, later);
      };
      const Access& access = accesses[at(later)];
      for (std::size_t p = piece_at(access.offset); p < pieces_.size() && begins_[p] < end(access); ++p) {
        Piece& piece = pieces_[p];
        if (piece.written != kNone && (access.reads || piece.last_read == kNone)) tell(piece.written);
        if (access.reads) {
          reads_.push_back({later, piece.last_read});
          piece.last_read = static_cast<int>(reads_.size()) - 1;
        } else {  // who read it has waited for who wrote it
          for (int r = piece.last_read; r != kNone; r = reads_[at(r)].before) tell(reads_[at(r)].access);
          piece = {.written = later};
        }
      }
    }
  }

 private:
  /// What all accesses touch as a whole: who wrote it last, and who has read it since.
  struct Piece {
    int written = kNone;
    int last_read = kNone;  // row of reads_
  };
  struct Read {
    int access;
    int before;  // row of reads_
  };

  static std::int64_t end(const Access& access) { return access.offset + std::max<std::int64_t>(1, access.bytes); }
  void divide(std::span<const Access> accesses);
  [[nodiscard]] std::size_t piece_at(std::int64_t offset) const;

  std::vector<std::int64_t> begins_;  // of pieces, ascending
  std::vector<Piece> pieces_;
  std::vector<Read> reads_;
  std::vector<int> told_;  // by access: the last one that was told to wait for it
};

/// A move may begin when all that it waits for at either end are done.
class MoveOrder {
 public:
  explicit MoveOrder(std::span<const Move> moves);

  /// How many moves hold this one up. Two that conflict at both ends count twice, here and there.
  [[nodiscard]] int waits(int move) const { return waits_[at(move)]; }
  /// Later moves that wait for this one.
  [[nodiscard]] std::span<const int> held_up(int move) const {
    return std::span(held_up_).subspan(at(begins_[at(move)]), at(begins_[at(move) + 1] - begins_[at(move)]));
  }

 private:
  std::vector<int> waits_;
  std::vector<int> begins_;  // in held_up_, one more than moves
  std::vector<int> held_up_;
};

}  // namespace sluice
