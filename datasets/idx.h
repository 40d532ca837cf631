#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/storage/values.h"

namespace sluice {

/// An array of bytes in the IDX format of LeCun's MNIST: two zero bytes, the
/// element type (8: unsigned byte), the rank, big-endian 32-bit extents, then
/// the elements, row-major.
struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> values;
};

/// Reads a plain or gzip-compressed file.
/// @throws Error (bad input) if it cannot be read, is damaged, or is not an
///         array of unsigned bytes of this rank
[[nodiscard]] IdxArray read_idx(const std::string& path, std::size_t rank);

}  // namespace sluice
