#include "core/calls_in_flight.h"

#include <utility>

namespace sluice {
namespace {

std::uint64_t key_of(int transfer, int microbatch) {
  return std::uint64_t{static_cast<std::uint32_t>(transfer)} << 32 | static_cast<std::uint32_t>(microbatch);
}

}  // namespace

int CallsInFlight::number(int transfer, int microbatch) {
  const std::uint64_t key = key_of(transfer, microbatch);
  std::size_t place = find(key);
  if (entries_[place].key == key) return entries_[place].number;
  if (2 * (used_ + 1) > entries_.size()) {
    grow();
    place = find(key);
  }
  ++used_;
  if (free_.empty()) free_.push_back(numbers_++);
  entries_[place] = {key, free_.back()};
  free_.pop_back();
  return entries_[place].number;
}

void CallsInFlight::end(int transfer, int microbatch) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t hole = find(key_of(transfer, microbatch));
  free_.push_back(entries_[hole].number);
  --used_;
  // Whoever was pushed past the hole moves back into it, so that searches still end at the first empty place.
  for (std::size_t next = (hole + 1) & mask; entries_[next].key != kEmpty; next = (next + 1) & mask) {
    if (((next - home(entries_[next].key)) & mask) < ((next - hole) & mask)) continue;
    entries_[hole] = entries_[next];
    hole = next;
  }
  entries_[hole] = {};
}

std::size_t CallsInFlight::home(std::uint64_t key) const {
  return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15) >> 32) & (entries_.size() - 1);
}

std::size_t CallsInFlight::find(std::uint64_t key) const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t place = home(key);
  while (entries_[place].key != kEmpty && entries_[place].key != key) place = (place + 1) & mask;
  return place;
}

void CallsInFlight::grow() {
  std::vector<Entry> old(2 * entries_.size());
  std::swap(old, entries_);
  for (const Entry& entry : old)
    if (entry.key != kEmpty) entries_[find(entry.key)] = entry;
}

}  // namespace sluice
