#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/storage/writer.h"

namespace sluice {

enum class Split : std::uint8_t { train, test };
[[nodiscard]] const char* to_string(Split split);

/// Extents of one image and the number of classes.
struct ImageKind {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
  [[nodiscard]] std::int64_t image_bytes() const { return height * width * channels; }
  bool operator==(const ImageKind&) const = default;
};

struct LabelledImages {
  std::vector<std::uint8_t> images;  ///< (N, H, W, C)
  std::vector<std::int32_t> labels;  ///< (N), 0 to classes - 1
  bool operator==(const LabelledImages&) const = default;
};

/// Writes a file of schema sluice/dataset, with mean and standard deviation of
/// pixel/255 per channel over the training part.
/// @throws Error (bad input) if sizes do not match, a label is out of range, the
///         training part is empty or the path cannot be written; (runtime fault) if the disk is full
void write_dataset(const std::string& path, const ImageKind& kind, const LabelledImages& train,
                   const LabelledImages& test, const Provenance& provenance = {});

/// An open dataset file. Labels are read and checked when it is opened; images
/// are read from disk row by row. Read calls may come from several threads.
class DatasetReader {
 public:
  /// @throws Error (bad input) naming file and dataset
  explicit DatasetReader(const std::string& path);
  DatasetReader(const DatasetReader&) = delete;
  DatasetReader& operator=(const DatasetReader&) = delete;
  ~DatasetReader();

  [[nodiscard]] const ImageKind& kind() const { return kind_; }
  [[nodiscard]] std::int64_t size(Split split) const { return std::ssize(part(split).labels); }
  [[nodiscard]] const std::vector<double>& mean() const { return mean_; }  ///< (C), of pixel/255
  [[nodiscard]] const std::vector<double>& standard_deviation() const { return standard_deviation_; }  ///< (C), above 0

  /// @param rows    each 0 to size(split) - 1, in any order
  /// @param images  (rows, H, W, C), overwritten; null: not wanted
  /// @param labels  (rows), overwritten; null: not wanted
  /// @throws Error (bad input) for a row out of range, (runtime fault) if the disk fails
  void read_rows(Split split, std::span<const std::int64_t> rows, std::uint8_t* images, std::int32_t* labels) const;

 private:
  struct Part {
    std::int64_t offset = 0;  ///< of the images [B from the file's begin]
    std::vector<std::int32_t> labels;
  };
  [[nodiscard]] const Part& part(Split split) const { return parts_[static_cast<std::size_t>(split)]; }
  [[nodiscard]] Part open_part(const class GroupReader& root, Split split) const;

  std::string path_;
  ImageKind kind_;
  std::vector<double> mean_;
  std::vector<double> standard_deviation_;
  std::array<Part, 2> parts_;
  int file_ = -1;
};

}  // namespace sluice
