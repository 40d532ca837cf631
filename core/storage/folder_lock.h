#pragma once

#include <string>

namespace sluice {

/// Keeps a second run from writing into the same folder. The kernel drops the lock when the process ends, however it
/// ends. Best effort: where the file system has no locks, there is none.
class FolderLock {
 public:
  /// Creates the folder if there is none.
  /// @throws Error (bad input) if another process holds the lock
  explicit FolderLock(const std::string& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int file_ = -1;
};

}  // namespace sluice
