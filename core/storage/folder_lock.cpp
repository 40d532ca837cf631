#include "core/storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.h"
#include "core/text.h"

namespace sluice {

FolderLock::FolderLock(const std::string& folder) {
  mkdir(folder.c_str(), 0777);  // there already, or impossible: who writes into it says why
  file_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file_ < 0 || flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(file_);
  throw bad_input(text(folder, ": another run is writing there: name another folder or output, or wait for it"));
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace sluice
