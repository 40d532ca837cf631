#include "core/storage/dataset_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/storage/reader.h"
#include "core/text.h"

namespace sluice {
namespace {

void validate(const std::string& path, const ImageKind& kind) {
  if (kind.height < 1 || kind.width < 1 || kind.channels < 1 || kind.classes < 1)
    throw bad_input(text(path, ": images of ", kind.height, " x ", kind.width, " x ", kind.channels, " in ",
                         kind.classes, " classes, expected at least 1 of each"));
}

void validate_labels(const std::string& place, const std::vector<std::int32_t>& labels, std::int64_t classes) {
  for (std::size_t row = 0; row < labels.size(); ++row)
    if (labels[row] < 0 || labels[row] >= classes)
      throw bad_input(text(place, ": label ", labels[row], " of row ", row, " is not one of 0 to ", classes - 1));
}

void validate(const std::string& place, const ImageKind& kind, const LabelledImages& part) {
  if (std::ssize(part.images) != kind.image_bytes() * std::ssize(part.labels))
    throw bad_input(text(place, ": ", part.images.size(), " bytes of images do not fit ", part.labels.size(),
                         " labels of ", kind.image_bytes(), " bytes each"));
  validate_labels(place, part.labels, kind.classes);
}

/// Of pixel/255 per channel.
struct Statistics {
  std::vector<double> mean;
  std::vector<double> standard_deviation;
};

Statistics statistics(const ImageKind& kind, const std::vector<std::uint8_t>& images) {
  const auto channels = static_cast<std::size_t>(kind.channels);
  // Sums of integers are exact, whatever the number of images.
  std::vector<std::int64_t> sum(channels), squares(channels);
  for (std::size_t i = 0; i < images.size(); ++i) {
    sum[i % channels] += images[i];
    squares[i % channels] += std::int64_t{images[i]} * images[i];
  }
  const auto count = static_cast<double>(images.size() / channels);
  Statistics result;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sum[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - mean * mean;
    result.mean.push_back(mean / 255);
    // A channel of one colour needs no scaling, and must not be divided by 0.
    result.standard_deviation.push_back(variance > 0 ? std::sqrt(variance) / 255 : 1);
  }
  return result;
}

void write_part(const GroupWriter& group, const ImageKind& kind, const LabelledImages& part) {
  const Shape shape{std::ssize(part.labels), kind.height, kind.width, kind.channels};
  group.array<std::uint8_t>("images", part.images, shape, {"1", "pixels, 0 to 255: N, H, W, C"}, Layout::contiguous);
  group.column("labels", part.labels, {"1", "class of each image"});
}

std::vector<double> read_channels(const GroupReader& root, const std::string& name, const ImageKind& kind) {
  auto values = root.column<double>(name);
  if (std::ssize(values) != kind.channels)
    root.refuse(name, text("has ", values.size(), " rows, expected ", kind.channels, " as there are channels"));
  return values;
}

void read_exactly(int file, std::uint8_t* target, std::int64_t bytes, std::int64_t offset, const std::string& path) {
  while (bytes > 0) {
    const ssize_t count = pread(file, target, static_cast<std::size_t>(bytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw runtime_fault(text(path, ": reading images failed: ", count < 0 ? std::strerror(errno) : "file ended"));
    target += count;
    bytes -= count;
    offset += count;
  }
}

}  // namespace

const char* to_string(Split split) { return split == Split::train ? "train" : "test"; }

void write_dataset(const std::string& path, const ImageKind& kind, const LabelledImages& train,
                   const LabelledImages& test, const Provenance& provenance) {
  validate(path, kind);
  validate(path + ": train", kind, train);
  validate(path + ": test", kind, test);
  if (train.labels.empty()) throw bad_input(text(path, ": the training part has no images"));
  const Statistics pixels = statistics(kind, train.images);
  FileWriter file(path, kDatasetSchema, provenance);
  const GroupWriter root = file.root();
  root.attribute("height", kind.height);
  root.attribute("width", kind.width);
  root.attribute("channels", kind.channels);
  root.attribute("classes", kind.classes);
  root.column("mean", pixels.mean, {"1", "of pixel/255 per channel, over the training part"});
  root.column("std", pixels.standard_deviation, {"1", "standard deviation of the same; 1 where it is 0"});
  write_part(root.group("train"), kind, train);
  write_part(root.group("test"), kind, test);
  file.commit();
}

DatasetReader::DatasetReader(const std::string& path) : path_(path) {
  const FileReader file(path, kDatasetSchema);
  const GroupReader root = file.root();
  kind_ = {root.integer_attribute<std::int64_t>("height"), root.integer_attribute<std::int64_t>("width"),
           root.integer_attribute<std::int64_t>("channels"), root.integer_attribute<std::int64_t>("classes")};
  validate(path, kind_);
  mean_ = read_channels(root, "mean", kind_);
  standard_deviation_ = read_channels(root, "std", kind_);
  for (const double value : standard_deviation_)
    if (value <= 0) root.refuse("std", text("holds ", value, ", expected more than 0"));
  for (const Split split : {Split::train, Split::test})
    parts_[static_cast<std::size_t>(split)] = open_part(root, split);
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw bad_input(text(path, ": cannot be read: ", std::strerror(errno)));
}

DatasetReader::~DatasetReader() {
  if (file_ >= 0) close(file_);
}

DatasetReader::Part DatasetReader::open_part(const GroupReader& root, Split split) const {
  const GroupReader group = root.group(to_string(split));
  Part part;
  part.labels = group.column<std::int32_t>("labels");
  validate_labels(text(path_, ": /", to_string(split), "/labels"), part.labels, kind_.classes);
  if (part.labels.empty()) return part;
  Shape shape;
  part.offset = group.contiguous_bytes("images", shape);
  if (shape != Shape{std::ssize(part.labels), kind_.height, kind_.width, kind_.channels})
    group.refuse("images", text("does not have the extents (", part.labels.size(), ", ", kind_.height, ", ",
                                kind_.width, ", ", kind_.channels, ") that labels and attributes say"));
  return part;
}

void DatasetReader::read_rows(Split split, std::span<const std::int64_t> rows, std::uint8_t* images,
                              std::int32_t* labels) const {
  const Part& part = this->part(split);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= size(split))
      throw bad_input(text(path_, ": row ", rows[i], " of part ", to_string(split), ", which has ", size(split)));
    const std::int64_t bytes = kind_.image_bytes();
    if (images != nullptr)
      read_exactly(file_, images + static_cast<std::int64_t>(i) * bytes, bytes, part.offset + rows[i] * bytes, path_);
    if (labels != nullptr) labels[i] = part.labels[static_cast<std::size_t>(rows[i])];
  }
}

}  // namespace sluice
