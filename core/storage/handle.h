#pragma once

#include <cstdint>
#include <utility>

namespace sluice {

/// Owns one HDF5 identifier: a file, group, dataset, type, space or property
/// list. Identifiers are 64-bit integers, so no public header needs hdf5.h.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::int64_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, kNoId)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();

  [[nodiscard]] std::int64_t get() const { return id_; }
  /// Gives the identifier up without closing it.
  [[nodiscard]] std::int64_t release() { return std::exchange(id_, kNoId); }

 private:
  static constexpr std::int64_t kNoId = -1;
  std::int64_t id_ = kNoId;
};

}  // namespace sluice
