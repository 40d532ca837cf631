#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// A number for each collective call (transfer, micro-batch) that is under way: the lowest numbers are reused, so that
/// they index tables as large as the most calls that were ever under way at once. Open addressing (Knuth 6.4).
class CallsInFlight {
 public:
  CallsInFlight() : entries_(kFewest) {}

  /// The call's number; a new one if it has none yet.
  [[nodiscard]] int number(int transfer, int microbatch);

  /// The call is over; its number may go to another.
  void end(int transfer, int microbatch);

 private:
  static constexpr std::size_t kFewest = 64;
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Entry {
    std::uint64_t key = kEmpty;
    int number = 0;
  };

  [[nodiscard]] std::size_t home(std::uint64_t key) const;
  [[nodiscard]] std::size_t find(std::uint64_t key) const;  ///< where it is or would go
  void grow();

  std::vector<Entry> entries_;  // a power of two, at most half of them used
  std::size_t used_ = 0;
  std::vector<int> free_;
  int numbers_ = 0;
};

}  // namespace sluice
