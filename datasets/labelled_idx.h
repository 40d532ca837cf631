#pragma once

#include <cstdint>
#include <string>

#include "core/storage/dataset_file.h"

namespace sluice {

/// Images and labels of one part, and what its files hold: `kind.classes` is
/// one more than the largest label, taken or not.
struct IdxPart {
  ImageKind kind;
  LabelledImages part;
};

/// @param padding  black pixels added on each side
/// @param limit    images taken from the beginning; negative: all
/// @throws Error (bad input) if a file is not what it should be or their counts differ
[[nodiscard]] IdxPart read_labelled_idx(const std::string& images_path, const std::string& labels_path,
                                        std::int64_t padding, std::int64_t limit);

}  // namespace sluice
