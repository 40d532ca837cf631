#pragma once

#include <string>

namespace sluice {

/// A file that appears under its name only when it is whole: it is written
/// beside the name, synced and renamed. Until commit() an older file under the
/// name stays as it is; without commit() the destructor removes the temporary.
class AtomicFile {
 public:
  /// Creates the temporary, empty.
  /// @throws Error (bad input) if the folder does not exist or cannot be written,
  ///         or if the path is a folder.
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& temporary() const { return temporary_; }

  /// Syncs the temporary and its folder to disk and renames it.
  /// @throws Error (runtime fault), for instance when the disk is full.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  bool committed_ = false;
};

/// Says early that an output cannot be written, before hours are spent on its contents.
/// @throws Error (bad input)
void check_writable(const std::string& path);

}  // namespace sluice
