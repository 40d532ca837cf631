#include "datasets/labelled_idx.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "datasets/idx.h"

namespace sluice {
namespace {

/// `images` (N, H, W) with a black frame.
std::vector<std::uint8_t> framed(const IdxArray& images, std::int64_t padding) {
  const std::int64_t count = images.shape[0], height = images.shape[1], width = images.shape[2];
  const std::int64_t framed_height = height + 2 * padding, framed_width = width + 2 * padding;
  std::vector<std::uint8_t> result(static_cast<std::size_t>(count * framed_height * framed_width));
  for (std::int64_t image = 0; image < count; ++image)
    for (std::int64_t row = 0; row < height; ++row)
      std::copy_n(images.values.begin() + (image * height + row) * width, width,
                  result.begin() + (image * framed_height + row + padding) * framed_width + padding);
  return result;
}

}  // namespace

IdxPart read_labelled_idx(const std::string& images_path, const std::string& labels_path, std::int64_t padding,
                          std::int64_t limit) {
  IdxArray images = read_idx(images_path, 3);
  IdxArray labels = read_idx(labels_path, 1);
  if (images.shape[0] != labels.shape[0])
    throw bad_input(text(images_path, ": has ", images.shape[0], " images, but ", labels_path, " has ", labels.shape[0],
                         " labels"));
  const std::int64_t classes =
      labels.values.empty() ? 0 : *std::max_element(labels.values.begin(), labels.values.end()) + 1;
  if (limit >= 0 && limit < images.shape[0]) {
    images.shape[0] = limit;
    labels.values.resize(static_cast<std::size_t>(limit));
  }
  const ImageKind kind{images.shape[1] + 2 * padding, images.shape[2] + 2 * padding, 1, classes};
  return {kind, {framed(images, padding), {labels.values.begin(), labels.values.end()}}};
}

}  // namespace sluice
