#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "core/shape.h"

/// What readers and writers of the files agree on.
namespace sluice {

/// Element types of numeric datasets.
enum class Number : std::uint8_t { uint8, int32, int64, float32, float64 };

template <typename T>
[[nodiscard]] constexpr Number number_of() {
  if constexpr (std::same_as<T, std::uint8_t>) return Number::uint8;
  if constexpr (std::same_as<T, std::int32_t>) return Number::int32;
  if constexpr (std::same_as<T, std::int64_t>) return Number::int64;
  if constexpr (std::same_as<T, float>) return Number::float32;
  if constexpr (std::same_as<T, double>) return Number::float64;
}

/// How a member of a struct lies in its column: bool as uint8.
template <typename T>
using stored_t = std::conditional_t<std::same_as<T, bool>, std::uint8_t, T>;

/// Which floating-point values a reader lets pass.
enum class Values : std::uint8_t { finite, any };

/// How an array lies in the file. A checksum is kept unless it is contiguous.
enum class Layout : std::uint8_t {
  compressed,  ///< chunks along the first axis
  checked,     ///< the same without compression, for what does not compress
  contiguous,  ///< in one piece, so that rows can be read directly
};

/// What a number is, for people and for h5dump.
struct Meaning {
  std::string units;  ///< "s", "B", "1"
  std::string description;
};

/// Names of an enumeration whose values run from 0 to `last`.
template <typename Enum>
[[nodiscard]] std::vector<std::string> names_up_to(Enum last) {
  std::vector<std::string> names;
  for (int value = 0; value <= static_cast<int>(last); ++value) names.emplace_back(to_string(static_cast<Enum>(value)));
  return names;
}

}  // namespace sluice
