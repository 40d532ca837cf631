#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/storage/dataset_file.h"
#include "runtime/comm/communicator.h"

namespace sluice {

/// Feeds micro-batches to a rank. What is trained on is a list of dataset rows, a global batch or, for asynchronous
/// programs, several that follow each other; micro-batch `first` + i holds rows [i B, (i + 1) B) of it. Every rank has
/// its own loader. Where one rank reads the data for all, the others' know how much there is, and have no file.
class DataLoader {
 public:
  /// @throws Error (bad input) naming file and model if image shape or classes differ, or if the training part is
  /// smaller than one global batch of `microbatches`.
  DataLoader(const std::string& path, const Model& model, int microbatches);

  /// Of a rank that reads nothing.
  /// @param samples  of the training and the test part of the file that was found to fit the model
  DataLoader(const std::array<std::int64_t, 2>& samples, const Model& model, int microbatches);

  [[nodiscard]] std::int64_t samples(Split split) const { return samples_[static_cast<std::size_t>(split)]; }
  [[nodiscard]] std::int64_t image_elements() const { return image_elements_; }
  [[nodiscard]] std::int64_t global_batch() const { return microbatches_ * microbatch_; }

  /// Chooses the rows of the next global batches, which begin with micro-batch `first`; after the last row all is
  /// padding.
  void begin_batch(Split split, std::span<const std::int64_t> rows, int first = 0);

  /// Samples of a micro-batch that are not padding.
  [[nodiscard]] std::int64_t valid_samples(int microbatch) const;

  /// (N, H, W, C), each pixel (p/255 - mean) / std of its channel; padding is 0.
  void load_images(int microbatch, std::span<float> images);
  /// (N); padding is 0.
  void load_labels(int microbatch, std::span<std::int32_t> labels);

 private:
  [[nodiscard]] std::span<const std::int64_t> rows(int microbatch) const;

  std::optional<DatasetReader> file_;
  std::array<std::int64_t, 2> samples_{};
  std::int64_t image_elements_;
  std::int64_t microbatch_;
  std::int64_t microbatches_;
  Split split_ = Split::train;
  int first_ = 0;  ///< micro-batch that rows_ begin with
  std::vector<std::int64_t> rows_;
  std::vector<std::uint8_t> pixels_;
  std::vector<float> scale_, shift_;  ///< per channel: normalised = p scale + shift
};

/// Every rank opens the file, or Plan::data_reader alone, which tells the others how many samples there are: where
/// it lies on the disk of that rank's node, the others have none. Collective; the ranks of `comm` are the plan's.
/// @throws AgreedError (bad input) if a rank that opens the file throws
[[nodiscard]] std::unique_ptr<DataLoader> open_data(Communicator& comm, const std::string& path, const Plan& plan);

}  // namespace sluice
