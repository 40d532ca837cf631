#include "core/storage/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace sluice {
namespace {

std::string folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Random rather than the process id: other nodes may write into the same folder.
std::string temporary_name(const std::string& path) {
  std::random_device random;
  std::ostringstream suffix;
  suffix << std::hex << random() << random();
  return text(path, ".", suffix.str(), ".tmp");
}

void sync(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  // Some file systems cannot sync a folder and say EINVAL; there is nothing more to do then.
  const bool synced = file >= 0 && (fsync(file) == 0 || errno == EINVAL);
  const int error = errno;
  if (file >= 0) close(file);
  if (!synced) throw runtime_fault(text(path, ": cannot be synced to disk: ", std::strerror(error)));
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  if (path_.empty()) throw bad_input("the name of the output is empty: name a file");
  std::error_code unreadable;  // then creating the temporary says why
  if (std::filesystem::is_directory(path_, unreadable))
    throw bad_input(text(path_, ": is a folder, expected a file to write"));
  if (std::filesystem::is_other(path_, unreadable))
    throw bad_input(text(path_, ": is a device or the like, expected a file to write"));
  const int file = open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (file < 0)
    throw bad_input(text(path_, ": cannot write into folder ", folder_of(path_), ": ", std::strerror(errno),
                         ": name another output"));
  close(file);
}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  sync(temporary_, O_RDONLY);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw runtime_fault(text(path_, ": cannot be renamed from ", temporary_, ": ", std::strerror(errno)));
  committed_ = true;
  sync(folder_of(path_), O_RDONLY | O_DIRECTORY);
}

}  // namespace sluice
