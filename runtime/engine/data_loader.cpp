#include "runtime/engine/data_loader.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "runtime/engine/agreement.h"

namespace sluice {

DataLoader::DataLoader(const std::string& path, const Model& model, int microbatches)
    : file_(std::in_place, path),
      samples_{file_->size(Split::train), file_->size(Split::test)},
      image_elements_(file_->kind().image_bytes()),
      microbatch_(model.microbatch),
      microbatches_(microbatches) {
  const ImageKind& kind = file_->kind();
  const Shape shape{kind.channels, kind.height, kind.width};
  const Shape& expected = model.layers.front().input_shape;
  if (shape != expected)
    throw bad_input(text(path, ": images are ", shape_text(shape), " (C x H x W), but model ", model.name, " takes ",
                         shape_text(expected), ": profile the model for this image size"));
  if (kind.classes != model.classes)
    throw bad_input(text(path, " has ", kind.classes, " classes, but model ", model.name, " has ", model.classes,
                         ": profile the model with --classes ", kind.classes));
  if (samples(Split::train) < global_batch())
    throw bad_input(text(path, " has ", samples(Split::train), " training samples, fewer than one global batch of ",
                         microbatches, " micro-batches x ", microbatch_, ": lower --microbatches or --microbatch"));
  for (std::size_t channel = 0; channel < file_->mean().size(); ++channel) {
    const double deviation = file_->standard_deviation()[channel];
    scale_.push_back(static_cast<float>(1 / (255 * deviation)));
    shift_.push_back(static_cast<float>(-file_->mean()[channel] / deviation));
  }
  pixels_.resize(static_cast<std::size_t>(microbatch_ * image_elements()));
}

DataLoader::DataLoader(const std::array<std::int64_t, 2>& samples, const Model& model, int microbatches)
    : samples_(samples),
      image_elements_(element_count(model.layers.front().input_shape)),
      microbatch_(model.microbatch),
      microbatches_(microbatches) {}

void DataLoader::begin_batch(Split split, std::span<const std::int64_t> rows, int first) {
  split_ = split;
  first_ = first;
  rows_.assign(rows.begin(), rows.end());
}

std::int64_t DataLoader::valid_samples(int microbatch) const {
  return std::clamp<std::int64_t>(std::ssize(rows_) - (microbatch - first_) * microbatch_, 0, microbatch_);
}

std::span<const std::int64_t> DataLoader::rows(int microbatch) const {
  const std::int64_t valid = valid_samples(microbatch);
  if (valid == 0) return {};
  return std::span(rows_).subspan(static_cast<std::size_t>((microbatch - first_) * microbatch_),
                                  static_cast<std::size_t>(valid));
}

void DataLoader::load_images(int microbatch, std::span<float> images) {
  const std::span<const std::int64_t> chosen = rows(microbatch);
  file_.value().read_rows(split_, chosen, pixels_.data(), nullptr);
  const std::size_t channels = scale_.size();
  const std::size_t filled = chosen.size() * static_cast<std::size_t>(image_elements());
  for (std::size_t i = 0; i < filled; ++i)
    images[i] = static_cast<float>(pixels_[i]) * scale_[i % channels] + shift_[i % channels];
  std::fill(images.begin() + static_cast<std::ptrdiff_t>(filled), images.end(), 0.0F);
}

void DataLoader::load_labels(int microbatch, std::span<std::int32_t> labels) {
  const std::span<const std::int64_t> chosen = rows(microbatch);
  file_.value().read_rows(split_, chosen, nullptr, labels.data());
  std::fill(labels.begin() + std::ssize(chosen), labels.end(), 0);
}

std::unique_ptr<DataLoader> open_data(Communicator& comm, const std::string& path, const Plan& plan) {
  const Model& model = plan.profile.model;
  std::unique_ptr<DataLoader> loader;
  std::array<double, 2> samples{};
  collectively(comm, [&] {
    if (plan.data_reader != kNone && plan.data_reader != comm.rank()) return;
    loader = std::make_unique<DataLoader>(path, model, plan.microbatches);
    for (const Split split : {Split::train, Split::test})
      samples[static_cast<std::size_t>(split)] = static_cast<double>(loader->samples(split));
  });
  comm.all_max(samples);
  if (loader) return loader;
  return std::make_unique<DataLoader>(
      std::array{static_cast<std::int64_t>(samples[0]), static_cast<std::int64_t>(samples[1])}, model,
      plan.microbatches);
}

}  // namespace sluice
