#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/storage/atomic_file.h"
#include "core/storage/handle.h"
#include "core/storage/schemas.h"
#include "core/storage/values.h"

namespace sluice {

/// A group of an HDF5 file being written. Must not outlive its FileWriter.
/// All members throw Error (runtime fault) naming the dataset, for instance on a full disk.
class GroupWriter {
 public:
  GroupWriter(Handle group, std::string place) : group_(std::move(group)), place_(std::move(place)) {}

  /// Creates a group inside this one.
  [[nodiscard]] GroupWriter group(const std::string& name) const;

  void attribute(const std::string& name, const std::string& value) const;
  void attribute(const std::string& name, double value) const;
  template <std::integral T>
  void attribute(const std::string& name, T value) const {
    integer(name, static_cast<std::int64_t>(value));
  }

  /// An array of numbers, row-major.
  template <typename T>
  void array(const std::string& name, std::span<const T> values, const Shape& shape, const Meaning& meaning,
             Layout layout = Layout::compressed) const {
    numbers(name, number_of<T>(), values.data(), shape, meaning, layout);
  }
  template <typename T>
  void column(const std::string& name, const std::vector<T>& values, const Meaning& meaning) const {
    array<T>(name, values, {std::ssize(values)}, meaning);
  }
  void strings(const std::string& name, const std::vector<std::string>& values, const std::string& description) const;
  /// An enumeration: positions in `names`, stored with the names.
  void choices(const std::string& name, const std::vector<std::uint8_t>& values, const std::vector<std::string>& names,
               const std::string& description) const;

 private:
  void integer(const std::string& name, std::int64_t value) const;
  void numbers(const std::string& name, Number number, const void* values, const Shape& shape, const Meaning& meaning,
               Layout layout) const;
  void dataset(const std::string& name, std::int64_t type, const void* values, const Shape& shape,
               const Meaning& meaning, Layout layout = Layout::compressed) const;

  Handle group_;
  std::string place_;  ///< "plan.h5: /plan"
};

/// How a file came to be; stored in group /provenance.
struct Provenance {
  std::string command_line;
  std::map<std::string, std::string> parameters;  ///< the resolved options
  bool operator==(const Provenance&) const = default;
};

inline constexpr int kSchemaVersion = 3;

/// "sluice 0.1.0, HDF5 1.10.8": attribute creator, and what --version begins with.
[[nodiscard]] std::string creator();

/// Says early that an output cannot be written, before hours are spent on its contents.
/// @param schema  what FileWriter will be told
/// @throws Error (bad input)
void check_writable(const std::string& path, const std::string& schema);

/// @throws Error (bad input) beginning with `place` if HDF5 has no dataset or group of this name
void require_dataset_name(const std::string& place, const std::string& name);

/// An HDF5 file of ours being written, with its root attributes. It appears
/// under its name in commit(), whole, and replaces only an empty file or one of its own kind:
/// an input that is named as output by mistake stays.
class FileWriter {
 public:
  /// @param schema  one of schemas.h
  /// @throws Error (bad input) if `path` cannot be written, or if it is a file that is not of this schema.
  FileWriter(const std::string& path, const std::string& schema, const Provenance& provenance = {});
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  [[nodiscard]] GroupWriter root() const;
  /// Nothing may be written afterwards.
  void commit();

 private:
  AtomicFile target_;
  Handle file_;
};

/// An HDF5 file of ours that is made in memory; nothing touches the disk.
class ImageWriter {
 public:
  /// @param name   for messages
  /// @param bytes  about the file's length; a wrong guess costs time
  /// @throws Error (runtime fault)
  ImageWriter(std::string name, const std::string& schema, std::int64_t bytes);
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  [[nodiscard]] GroupWriter root() const;
  /// Its bytes. Nothing may be written afterwards.
  [[nodiscard]] std::vector<std::byte> finish();

 private:
  std::string name_;
  std::vector<std::byte> image_;  ///< HDF5 keeps the file in it
  Handle file_;
};

}  // namespace sluice
