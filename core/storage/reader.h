#pragma once

#include <limits>
#include <string>
#include <vector>

#include "core/storage/handle.h"
#include "core/storage/values.h"
#include "core/storage/writer.h"

namespace sluice {

/// A group of an HDF5 file being read. Trusts nothing: kinds, ranks, sizes and
/// ranges are checked, and every member throws Error (bad input) naming file
/// and dataset, what was found and what was expected.
class GroupReader {
 public:
  GroupReader(Handle group, std::string place) : group_(std::move(group)), place_(std::move(place)) {}

  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] GroupReader group(const std::string& name) const;
  /// Names of the groups and datasets inside, in the order of their names.
  [[nodiscard]] std::vector<std::string> names() const;

  [[nodiscard]] std::string text_attribute(const std::string& name) const;
  [[nodiscard]] double real_attribute(const std::string& name, Values allowed = Values::finite) const;
  template <std::integral T>
  [[nodiscard]] T integer_attribute(const std::string& name) const {
    return static_cast<T>(integer(name, static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                                  static_cast<std::int64_t>(std::numeric_limits<T>::max())));
  }

  /// All elements, row-major.
  /// @param shape  set to the extents
  template <typename T>
  [[nodiscard]] std::vector<T> array(const std::string& name, Shape& shape, Values allowed = Values::finite) const {
    Elements elements = open(name, number_of<T>());
    std::vector<T> values(elements.count);
    read(elements, values.data());
    if constexpr (std::floating_point<T>)
      if (allowed == Values::finite) require_finite(elements, values.data(), values.size());
    shape = std::move(elements.shape);
    return values;
  }
  /// An array of rank 1.
  template <typename T>
  [[nodiscard]] std::vector<T> column(const std::string& name, Values allowed = Values::finite) const {
    Shape shape;
    std::vector<T> values = array<T>(name, shape, allowed);
    require_rank_1(name, shape);
    return values;
  }
  [[nodiscard]] std::vector<std::string> strings(const std::string& name) const;
  /// Positions in `names`; a stored name that is not among them is refused.
  [[nodiscard]] std::vector<std::uint8_t> choices(const std::string& name, const std::vector<std::string>& names) const;

  /// Shape of a dataset of uint8 that lies in one piece, and where [B from the file's begin].
  [[nodiscard]] std::int64_t contiguous_bytes(const std::string& name, Shape& shape) const;

  /// Throws: "<file>: <group>/<name>: <complaint>".
  [[noreturn]] void refuse(const std::string& name, const std::string& complaint) const;

 private:
  /// An opened dataset whose kind and size have been checked.
  struct Elements {
    Handle data;
    std::int64_t memory_type = 0;
    Shape shape;
    std::size_t count = 0;
    std::string name;
  };
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t low, std::int64_t high) const;
  [[nodiscard]] Handle open(const std::string& name) const;
  [[nodiscard]] Elements open(const std::string& name, Number number) const;
  [[nodiscard]] Elements elements(const std::string& name, Handle data, std::int64_t memory_type) const;
  void read(const Elements& elements, void* values) const;
  void require_finite(const Elements& elements, const float* values, std::size_t count) const;
  void require_finite(const Elements& elements, const double* values, std::size_t count) const;
  void require_rank_1(const std::string& name, const Shape& shape) const;

  Handle group_;
  std::string place_;
};

/// A file of ours being read.
class FileReader {
 public:
  /// Checks the root attributes: schema, version, features, completeness.
  /// @throws Error (bad input)
  FileReader(const std::string& path, const std::string& schema);

  [[nodiscard]] GroupReader root() const;

 private:
  std::string path_;
  Handle file_;
};

/// "sluice/plan", whatever its version.
/// @throws Error (bad input) if the file is not one of ours.
[[nodiscard]] std::string schema_of(const std::string& path);

/// How a file of any of our kinds came to be.
[[nodiscard]] Provenance read_provenance(const std::string& path);

}  // namespace sluice
