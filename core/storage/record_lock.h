#pragma once

#include <string>

namespace sluice {

/// Keeps a second run from writing its record into the same folder. The kernel
/// drops the lock when the process ends, however it ends. Best effort: where the
/// file system has no locks, there is none.
class RecordLock {
 public:
  /// Creates the folder if there is none.
  /// @throws Error (bad input) if another process holds the lock
  explicit RecordLock(const std::string& folder);
  RecordLock(const RecordLock&) = delete;
  RecordLock& operator=(const RecordLock&) = delete;
  ~RecordLock();

 private:
  int file_ = -1;
};

}  // namespace sluice
