#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sluice {

/// The folder that `path` lies in: "." of a bare name.
[[nodiscard]] std::string folder_of(const std::string& path);

/// Creations, renames and removals inside reach the disk. @throws Error (runtime fault)
void sync_folder(const std::string& folder);

/// A file that appears under its name only when it is whole: it is written
/// beside the name, synced and renamed. Until commit() an older file under the
/// name stays as it is; without commit() the destructor removes the temporary.
class AtomicFile {
 public:
  /// Creates the temporary, empty.
  /// @throws Error (bad input) if the folder does not exist or cannot be written,
  ///         or if the path is empty, or is something else than a file (a folder, a device).
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& temporary() const { return temporary_; }

  /// Appends to the temporary and syncs it; for contents that no other library writes there.
  /// @throws Error (runtime fault) naming path and bytes, for instance when the disk is full.
  void write(std::span<const std::byte> bytes);

  /// Syncs the temporary and its folder to disk and renames it.
  /// @throws Error (runtime fault), for instance when the disk is full.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  bool committed_ = false;
};

}  // namespace sluice
