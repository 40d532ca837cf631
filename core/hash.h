#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace sluice {

/// FNV-1a, 64 bits (Fowler, Noll, Vo): identities of models and plans, and
/// random-number keys of layer names. Stable across machines.
class Fnv1a {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<std::uint8_t>(c));
    add_byte(0xFF);  // so that ("ab", "c") differs from ("a", "bc")
  }
  void add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      add_byte(static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> shift));
  }
  void add(double value) { add(std::bit_cast<std::int64_t>(value)); }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  void add_byte(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ULL; }
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

[[nodiscard]] inline std::uint64_t fnv1a(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.value();
}

}  // namespace sluice
